/** For `expect.poll(read, PATIENTLY)`: waiting for a state instead of sleeping, also on a busy machine. */
export const PATIENTLY = { timeout: 60_000, interval: 20 }
