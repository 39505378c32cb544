// The module `node:os`: a machine about which scripts learn nothing, as on Cloudflare.
// @ts-check

export const EOL = "\n";
export const devNull = "/dev/null";

export const arch = () => "x64";
export const availableParallelism = () => 1;
export const cpus = () => [];
export const endianness = () => "LE";
export const freemem = () => 0;
export const getPriority = () => 0;
export const homedir = () => "/tmp/";
export const hostname = () => "localhost";
export const loadavg = () => [0, 0, 0];
export const machine = () => "x86_64";
export const networkInterfaces = () => ({});
export const platform = () => "linux";
export const release = () => "";
export const tmpdir = () => "/tmp/";
export const totalmem = () => 0;
export const type = () => "Linux";
export const uptime = () => 0;
export const userInfo = () => ({});
export const version = () => "";
