//! Projects in scratch folders, `celld` processes on loopback ports, and a small HTTP client.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod http;
pub mod ledger;

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A Wrangler project in a scratch folder, removed at the end.
pub struct Project {
    folder: TempDir,
}

impl Project {
    /// A project with `wrangler.jsonc` and `index.js`.
    pub fn new(wrangler: &str, code: &str) -> Self {
        let project = Self {
            folder: tempfile::tempdir().expect("a scratch folder"),
        };
        project.write("wrangler.jsonc", wrangler);
        project.write("index.js", code);
        project
    }

    /// Writes a file of the project in one step, so that a watcher sees it whole.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        let parent = path.parent().expect("a file lies in a folder");
        fs::create_dir_all(parent).expect("make a folder");
        let fresh = self.path().join(".fresh");
        fs::write(&fresh, text).expect("write a file");
        fs::rename(&fresh, &path).expect("move a file");
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A bucket beside the project's sources.
    pub fn bucket(&self) -> PathBuf {
        self.path().join("bucket")
    }

    /// The bucket as the command line takes it.
    pub fn bucket_url(&self) -> String {
        format!("file://{}", self.bucket().display())
    }
}

/// A running `celld`, killed when dropped.
pub struct Celld {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Celld {
    /// `celld dev` on a project.
    pub fn dev(project: &Project) -> Self {
        let port = free_port();
        let mut command = celld();
        command.arg("dev").arg(project.path());
        command.args(["--port", &port.to_string()]);
        Self::start(command, port, project).until_ready()
    }

    /// `celld run` on a project's bucket.
    pub fn run(project: &Project) -> Self {
        let port = free_port();
        let mut command = celld();
        command.args(["run", "--bucket", &project.bucket_url()]);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        Self::start(command, port, project).until_ready()
    }

    /// Starts a command that will listen on `port`; its output goes to a file.
    pub fn start(mut command: Command, port: u16, project: &Project) -> Self {
        let log = project.path().join(format!("celld-{port}.log"));
        let file = File::create(&log).expect("a log file");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("celld starts");
        Self { child, port, log }
    }

    fn until_ready(mut self) -> Self {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().expect("ask for the process") {
                panic!("celld ended with {status}:\n{}", self.output());
            }
            if http::get(self.port, "/ready").is_ok_and(|answer| answer.status < 500) {
                return self;
            }
            assert!(
                Instant::now() < end,
                "celld did not answer within 30 s:\n{}",
                self.output()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until `text` is printed.
    pub fn prints(&self, text: &str) {
        eventually(&format!("celld prints {text:?}"), || {
            self.output().contains(text)
        });
    }

    /// GET.
    pub fn get(&self, path: &str) -> http::Answer {
        http::get(self.port, path)
            .unwrap_or_else(|error| panic!("GET {path}: {error}\n{}", self.output()))
    }

    /// POST.
    pub fn post(&self, path: &str, body: &[u8]) -> http::Answer {
        http::request(self.port, "POST", path, body)
            .unwrap_or_else(|error| panic!("POST {path}: {error}\n{}", self.output()))
    }

    /// True while the process lives.
    pub fn lives(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("ask for the process")
            .is_none()
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("the end of the process");
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("terminate");
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("ask for the process") {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("celld did not stop within 20 s:\n{}", self.output());
    }
}

impl Drop for Celld {
    fn drop(&mut self) {
        // An error says that it ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The product, with plain output.
pub fn celld() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_celld"));
    command.env("NO_COLOR", "1").env_remove("CLICOLOR_FORCE");
    command
}

/// Runs `celld` to its end.
pub fn finish(arguments: &[&str]) -> Output {
    celld()
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("celld runs")
}

/// Runs `celld` to its end, which must be good.
pub fn succeeds(arguments: &[&str]) -> String {
    let output = finish(arguments);
    let text = both(&output);
    assert!(output.status.success(), "celld {arguments:?}:\n{text}");
    text
}

/// Runs `celld` to its end, which must be bad without being a crash; returns what it printed.
pub fn fails(arguments: &[&str]) -> String {
    let output = finish(arguments);
    let text = both(&output);
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| code != 0 && code != 101),
        "celld {arguments:?} ended with {code:?}:\n{text}"
    );
    assert!(!text.contains("panicked"), "{text}");
    text
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Waits up to 15 s for `probe`.
pub fn eventually(what: &str, mut probe: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(15);
    while !probe() {
        assert!(Instant::now() < end, "did not happen within 15 s: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Pseudo-random numbers that repeat with their seed (xorshift64*).
pub struct Random(u64);

impl Random {
    /// `seed` must not be 0.
    pub fn new(seed: u64) -> Self {
        assert_ne!(seed, 0, "xorshift does not leave 0");
        Self(seed)
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        low + (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % (high - low)
    }
}

/// Resident memory of a process, in bytes.
pub fn rss_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .expect("VmRSS in kB")
        << 10
}

/// Every file below a folder.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
