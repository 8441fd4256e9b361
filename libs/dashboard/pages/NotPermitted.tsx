import { pathTo } from '../app/router.js'
import { boundTo } from '../data/me.js'
import { Empty } from '../parts/Empty.js'

/** Replaces a page about all participants, for a key restricted to some. */
export function NotPermitted({ title }: { readonly title: string }) {
  return (
    <>
      <header class="page-head">
        <h1>{title}</h1>
      </header>
      <section class="panel" aria-label={title}>
        <Empty title="Not for this key">
          <p>
            This page is about all participants. Your key is restricted to {boundTo()?.join(', ')}: it shows their
            payments, holds and dead letters.
          </p>
          <a class="button" href={pathTo(['payments'])}>
            Show the payments
          </a>
        </Empty>
      </section>
    </>
  )
}
