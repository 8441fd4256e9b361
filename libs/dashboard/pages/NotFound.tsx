import { pathTo } from '../app/router.js'
import { Empty } from '../parts/Empty.js'

export function NotFound() {
  return (
    <Empty title="There is no such page">
      <p>
        Go to the <a href={pathTo([])}>overview</a>.
      </p>
    </Empty>
  )
}
