// Loaded with `node --import`: stops a command cleanly when standard input closes, also when its parent was killed.
process.stdin.on('end', () => process.kill(process.pid, 'SIGTERM'))
process.stdin.on('error', () => process.kill(process.pid, 'SIGTERM'))
process.stdin.resume()
process.stdin.unref()
