//! The C++ compiler's wrapper: compiles groups of files as one unit, a bounded number at a time.
//!
//! Ninja still asks for every object by itself. The first request for a member of a group compiles
//! the whole group into its own object; the other members get empty objects, which is the same in
//! the end because all of them go into one archive. A group whose files do not get along in one
//! unit (colliding names or macros) is compiled file by file.
//!
//! Members of a group wait for its first one, so Ninja runs more jobs than there are cores. What
//! really compiles takes a slot first; there are as many slots as cores, which bounds memory: up to
//! 1 GB each.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// Name under which this program acts as the compiler.
const OWN_NAME: &str = "clang++";
/// Variable with the path of the real compiler.
pub const REAL_COMPILER: &str = "CELLD_V8_COMPILER";
/// Variable with the wrapper's work folder.
pub const UNITS: &str = "CELLD_V8_UNITS";
/// Variable with the number of compilers that may run at once.
pub const SLOTS: &str = "CELLD_V8_SLOTS";
/// Files with these folders in their path only generate V8's built-in functions while V8 is built:
/// their own speed does not matter.
const GENERATORS: [&str; 2] = ["/v8_initializers/", "/torque_generated_initializers/"];
/// What a unit's state file holds when its files are compiled one by one.
const SEPARATE: &str = "separate";
/// How often a waiting compiler looks for a free slot.
const SLOT_POLL: Duration = Duration::from_millis(100);

/// Acts as the compiler when the program was started under its name.
pub fn run_if_called_as_compiler() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = PathBuf::from(arguments.next()?);
    if name.file_name()? != OWN_NAME {
        return None;
    }
    let arguments = arguments
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    let result = Wrapper::from_environment().and_then(|wrapper| wrapper.run(arguments));
    Some(result.unwrap_or_else(|error| {
        eprintln!("compiler wrapper: {error:#}");
        ExitCode::FAILURE
    }))
}

struct Wrapper {
    compiler: PathBuf,
    /// Arguments for units only.
    unit_flags: &'static [&'static str],
    units: PathBuf,
    slots: usize,
}

/// A macro that one file of a unit leaves behind must not change the next one.
const UNIT_FLAGS: &[&str] = &["-Werror=macro-redefined"];

/// A group that a file belongs to.
struct Group {
    unit: PathBuf,
    sources: Vec<String>,
}

impl Wrapper {
    fn from_environment() -> Result<Self> {
        let path = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .with_context(|| format!("{name} is not set"))
        };
        let slots = std::env::var(SLOTS)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(1);
        Ok(Self {
            compiler: path(REAL_COMPILER)?,
            unit_flags: UNIT_FLAGS,
            units: path(UNITS)?,
            slots,
        })
    }

    fn run(&self, mut arguments: Vec<String>) -> Result<ExitCode> {
        let (Some(source), Some(object)) = (value(&arguments, "-c"), value(&arguments, "-o"))
        else {
            // A link. The mathematics library is named by nobody else.
            arguments.extend(["-lm", "-ldl", "-lpthread"].map(str::to_owned));
            let error = Command::new(&self.compiler).args(&arguments).exec();
            return Err(error).with_context(|| format!("starting {}", self.compiler.display()));
        };
        if GENERATORS.iter().any(|folder| source.contains(folder)) {
            for argument in &mut arguments {
                if argument == "-O2" || argument == "-O3" {
                    "-O0".clone_into(argument);
                }
            }
        }
        match self.group_of(&object)? {
            Some(group) => self.compile_member(&arguments, &source, &object, &group),
            None => self.compile_alone(&arguments),
        }
    }

    fn group_of(&self, object: &str) -> Result<Option<Group>> {
        let path = self.units.join("groups.json");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let table: serde_json::Value = serde_json::from_str(&text)?;
        let entry = &table[object];
        let (Some(unit), Some(sources)) = (entry["unit"].as_u64(), entry["sources"].as_array())
        else {
            return Ok(None);
        };
        let sources = sources
            .iter()
            .filter_map(|source| source.as_str().map(str::to_owned))
            .collect();
        Ok(Some(Group {
            unit: self.units.join(format!("unit{unit}")),
            sources,
        }))
    }

    fn compile_alone(&self, arguments: &[String]) -> Result<ExitCode> {
        let _slot = self.take_slot()?;
        let status = Command::new(&self.compiler).args(arguments).status()?;
        Ok(exit_code(status))
    }

    fn compile_member(
        &self,
        arguments: &[String],
        source: &str,
        object: &str,
        group: &Group,
    ) -> Result<ExitCode> {
        let lock = File::create(group.unit.with_extension("lock"))?;
        lock.lock().context("waiting for the group")?;
        let state = group.unit.with_extension("state");
        let leader = match fs::read_to_string(&state) {
            Ok(leader) => leader,
            Err(_) => {
                let whole = self.compile_unit(arguments, source, object, group)?;
                let leader = if whole { object } else { SEPARATE };
                let unfinished = group.unit.with_extension("state.new");
                fs::write(&unfinished, leader)?;
                fs::rename(&unfinished, &state)?;
                leader.to_owned()
            }
        };
        if leader == SEPARATE {
            drop(lock);
            return self.compile_alone(arguments);
        }
        if leader == object {
            let unit = group.unit.with_extension("o");
            // Ninja removes the object of a job that it interrupts; the unit went with it then.
            if !unit.is_file() && !self.compile_unit(arguments, source, object, group)? {
                return Ok(ExitCode::FAILURE);
            }
            fs::rename(&unit, object).with_context(|| format!("moving the unit to {object}"))?;
        } else {
            self.make_empty_object(object)?;
        }
        if let Some(depfile) = value(arguments, "-MF") {
            fs::write(depfile, format!("{object}: {source}\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Compiles all files of a group as one. False when they do not get along.
    fn compile_unit(
        &self,
        arguments: &[String],
        source: &str,
        object: &str,
        group: &Group,
    ) -> Result<bool> {
        let folder = std::env::current_dir()?;
        let mut text = String::new();
        for member in &group.sources {
            text.push_str(&format!("#include \"{}\"\n", folder.join(member).display()));
        }
        let unit_source = group.unit.with_extension("cc");
        fs::write(&unit_source, text)?;

        let depfile = value(arguments, "-MF");
        let replaced = arguments
            .iter()
            .filter(|word| !word.starts_with("-fmodule-name"))
            .map(|word| {
                if word == source {
                    unit_source.clone()
                } else if word == object {
                    group.unit.with_extension("o")
                } else if Some(word) == depfile.as_ref() {
                    group.unit.with_extension("d")
                } else {
                    PathBuf::from(word)
                }
            });
        let log = File::create(group.unit.with_extension("log"))?;
        let _slot = self.take_slot()?;
        let status = Command::new(&self.compiler)
            .args(replaced)
            .args(self.unit_flags)
            .stderr(Stdio::from(log))
            .status()?;
        Ok(status.success())
    }

    fn make_empty_object(&self, object: &str) -> Result<()> {
        let source = self.units.join("empty.cc");
        if !source.is_file() {
            fs::write(&source, "")?;
        }
        let arguments = [
            Path::new("-c"),
            Path::new("-fPIC"),
            &source,
            Path::new("-o"),
            Path::new(object),
        ];
        crate::shell::run(Command::new(&self.compiler).args(arguments))
    }

    /// Waits for one of the slots. It is given back when the file is closed, also by a crash.
    fn take_slot(&self) -> Result<File> {
        loop {
            for number in 0..self.slots {
                let file = File::create(self.units.join(format!("slot{number}")))?;
                if file.try_lock().is_ok() {
                    return Ok(file);
                }
            }
            std::thread::sleep(SLOT_POLL);
        }
    }
}

/// The word after a flag.
fn value(arguments: &[String], flag: &str) -> Option<String> {
    let place = arguments.iter().position(|word| word == flag)?;
    arguments.get(place + 1).cloned()
}

fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A wrapper around the machine's own C++ compiler, with two files in one group.
    struct Bench {
        folder: tempfile::TempDir,
        wrapper: Wrapper,
    }

    impl Bench {
        /// `None` on a machine without a C++ compiler.
        fn new(first: &str, second: &str) -> Option<Self> {
            let compiler = crate::shell::find_program("c++")?;
            let folder = tempfile::tempdir().expect("a scratch folder");
            let place = |name: &str| folder.path().join(name).display().to_string();
            fs::write(place("a.cc"), first).expect("write");
            fs::write(place("b.cc"), second).expect("write");
            let sources = [place("a.cc"), place("b.cc")];
            let table: HashMap<String, serde_json::Value> = ["a.o", "b.o"]
                .map(|name| {
                    (
                        place(name),
                        serde_json::json!({ "unit": 0, "sources": sources }),
                    )
                })
                .into();
            let text = serde_json::to_string(&table).expect("JSON");
            fs::write(place("groups.json"), text).expect("write");
            // GCC does not know the flags.
            let wrapper = Wrapper {
                compiler,
                unit_flags: &[],
                units: folder.path().to_owned(),
                slots: 1,
            };
            Some(Self { folder, wrapper })
        }

        fn place(&self, name: &str) -> String {
            self.folder.path().join(name).display().to_string()
        }

        fn compile(&self, name: &str) {
            let object = self.place(&format!("{name}.o"));
            let words = [
                "-MF",
                "x.d",
                "-MD",
                "-c",
                &self.place(&format!("{name}.cc")),
                "-o",
                &object,
            ];
            let mut arguments: Vec<String> = words.map(str::to_owned).into();
            arguments[1] = self.place(&format!("{name}.o.d"));
            self.wrapper.run(arguments).expect("compiled");
            assert!(Path::new(&object).is_file(), "{object} was made");
        }

        /// Links a program of both objects and returns what it exits with.
        fn exit_code(&self) -> Option<i32> {
            let program = self.place("program");
            let objects = [self.place("a.o"), self.place("b.o")];
            let mut link = Command::new(&self.wrapper.compiler);
            crate::shell::run(link.args(objects).arg("-o").arg(&program)).expect("linked");
            Command::new(program).status().expect("started").code()
        }
    }

    #[test]
    fn a_group_becomes_one_object_that_holds_everything() {
        let Some(bench) = Bench::new(
            "int two() { return 2; }",
            "int two(); int main() { return two(); }",
        ) else {
            return;
        };
        bench.compile("b");
        bench.compile("a");
        assert_eq!(bench.exit_code(), Some(2));
        assert_eq!(
            fs::read_to_string(bench.place("unit0.state")).expect("state"),
            bench.place("b.o")
        );
    }

    #[test]
    fn files_that_collide_are_compiled_one_by_one() {
        let helper = "namespace { int helper() { return 4; } }";
        let first = format!("{helper} int four() {{ return helper(); }}");
        let second = format!("{helper} int four(); int main() {{ return four() + helper(); }}");
        let Some(bench) = Bench::new(&first, &second) else {
            return;
        };
        bench.compile("a");
        bench.compile("b");
        assert_eq!(bench.exit_code(), Some(8));
        assert_eq!(
            fs::read_to_string(bench.place("unit0.state")).expect("state"),
            SEPARATE
        );
    }

    #[test]
    fn an_interrupted_leader_is_compiled_again() {
        let Some(bench) = Bench::new(
            "int two() { return 2; }",
            "int two(); int main() { return two(); }",
        ) else {
            return;
        };
        bench.compile("a");
        fs::remove_file(bench.place("a.o")).expect("as Ninja does");
        bench.compile("a");
        bench.compile("b");
        assert_eq!(bench.exit_code(), Some(2));
    }
}
