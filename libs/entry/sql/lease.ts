export { acquireLease, purgeIdleLeases, releaseLease, renewLease } from '../../lease/index.js'
