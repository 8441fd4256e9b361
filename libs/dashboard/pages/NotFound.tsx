import { pathTo } from '../app/router.js'

export function NotFound() {
  return (
    <>
      <header class="page-head">
        <h1>Page not found</h1>
      </header>
      <p>
        Go to the <a href={pathTo([])}>overview</a>.
      </p>
    </>
  )
}
