import { main } from './main.js'

/** Runs the command line in a child process, without the launcher's check that the build is up to date. */
await main(process.argv)
