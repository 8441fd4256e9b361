/**
 * What every worker is made of: a loop that polls, is woken and backs off; bounded slots; a circuit breaker; a rate limit.
 * The only room with timers. Nothing here knows what the work is.
 */
export { BoundedSlots } from './BoundedSlots.js'
export { CircuitBreaker } from './CircuitBreaker.js'
export type { BreakerOptions, BreakerState } from './CircuitBreaker.js'
export { Emitter } from './Emitter.js'
export { guardListener } from './guardListener.js'
export { PollLoop } from './PollLoop.js'
export type { PollLoopOptions, Turn } from './PollLoop.js'
export { RateLimit } from './RateLimit.js'
export { after, settleWithin, sleep, turnOfEventLoop } from './time.js'
export type { Timer } from './time.js'
export { Wakeup } from './Wakeup.js'
export type { Worker } from './Worker.js'
