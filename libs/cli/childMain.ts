import { main } from './main.js'

/** The same command line in a process of its own, without the launcher's look at whether the build is fresh. */
await main(process.argv)
