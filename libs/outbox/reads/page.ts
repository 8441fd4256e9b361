/** How long a page may be. */
export const PAGE = Object.freeze({ min: 1, max: 1_000 })

/** Above every id there is: a first page begins below it. A condition that may be absent could use no index. */
export const LAST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
