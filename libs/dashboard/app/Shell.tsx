import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { readClock } from '../data/clock.js'
import { dayAndTime } from '../data/format.js'
import { staleSince } from '../data/freshness.js'
import { hasScope, me } from '../data/me.js'
import { navBadges, status } from '../data/status.js'
import { liveState } from '../data/stream.js'
import { Icon } from '../parts/Icon.js'
import { Logo } from '../parts/Logo.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { Dialog } from '../parts/Dialog.js'
import { announcement } from './announce.js'
import { currentPage, keysAreShown } from './keys.js'
import { ShortcutsDialog } from './ShortcutsDialog.js'
import { NAV_ITEMS, visibleNavItems, type NavItem } from './navItems.js'
import { pathTo, route } from './router.js'
import { theme, toggleTheme } from './theme.js'

export function Shell({ children }: { readonly children: ComponentChildren }) {
  const main = useRef<HTMLElement>(null)
  const address = route.value.parts.join('/')
  const isFirst = useRef(true)
  // Moves the focus to the new page for screen readers, and scrolls to the top.
  useEffect(() => {
    if (!isFirst.current) {
      // Leaves the focus where it is if the page itself has set it.
      if (main.current?.contains(document.activeElement) !== true) main.current?.focus({ preventScroll: true })
      scrollTo(0, 0)
    }
    isFirst.current = false
  }, [address])
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => skipTo(event, main.current)}>
        Skip to the content
      </a>
      <Side />
      <TopBar />
      <main id="main" class="main" tabIndex={-1} ref={main}>
        <StaleNote />
        <AllPaused />
        {children}
      </main>
      <Tabs />
      <ShortcutsDialog />
      <div class="toast" role="status">
        {announcement.value}
      </div>
    </div>
  )
}

/**
 * Shows on every page that everything is paused, because the lists show pending payments as usual. Only an operator can
 * resume.
 */
function AllPaused() {
  const pause = status.value?.allPaused ?? null
  if (pause === null) return null
  return (
    <section class="note tone-bad banner" aria-label="Everything is paused">
      <Icon name="warning" />
      <div>
        <p>
          <strong>Everything is paused: no payment and no message is sent.</strong> <bdi>{pause.reason}</bdi>{' '}
          <span class="quiet">by {pause.pausedBy}</span>{' '}
          {hasScope('operate') ? <a href={pathTo(['dispatch'])}>Resume</a> : null}
        </p>
      </div>
    </section>
  )
}

/** Moves the focus to the page. Does not follow the link, because the part of the address after `#` names the page. */
function skipTo(event: MouseEvent, main: HTMLElement | null): void {
  event.preventDefault()
  main?.focus()
}

function Side() {
  return (
    <header class="side">
      <a class="brand" href={pathTo([])}>
        <Logo />
        Symphony
      </a>
      <nav class="nav" aria-label="Pages">
        {visibleNavItems().map((item) => (
          <NavLink key={item.path} item={item} title={item.title} />
        ))}
      </nav>
      <div class="side-foot">
        <Live />
        <Controls />
      </div>
    </header>
  )
}

function TopBar() {
  return (
    <header class="topbar">
      <a class="brand" href={pathTo([])}>
        <Logo />
        Symphony
      </a>
      <Live />
    </header>
  )
}

function Tabs() {
  const [isOpen, setIsOpen] = useState(false)
  const close = () => setIsOpen(false)
  const others = visibleNavItems().filter(({ isMain }) => !isMain)
  return (
    <>
      <nav class="tabs" aria-label="Main pages">
        {NAV_ITEMS.filter(({ isMain }) => isMain).map((item) => (
          <NavLink key={item.path} item={item} title={item.shortTitle} />
        ))}
        <button
          type="button"
          aria-current={others.some(({ path }) => path === currentPage()) ? 'page' : undefined}
          onClick={() => setIsOpen(true)}
        >
          <Icon name="more" size={18} />
          More
        </button>
      </nav>
      {isOpen ? (
        <Dialog title="More" onClose={close}>
          <nav class="nav" aria-label="Other pages" onClick={close}>
            {others.map((item) => (
              <NavLink key={item.path} item={item} title={item.title} />
            ))}
          </nav>
          <div class="side-foot" onClick={close}>
            <Controls />
          </div>
        </Dialog>
      ) : null}
    </>
  )
}

function NavLink({ item, title }: { readonly item: NavItem; readonly title: string }) {
  const { path, icon } = item
  const badge = navBadges.value[path]
  return (
    <a href={pathTo(path === '' ? [] : [path])} aria-current={currentPage() === path ? 'page' : undefined}>
      <Icon name={icon} size={16} />
      <span>{title}</span>
      {badge === undefined || badge.count === '0' ? null : (
        <span class={`count ${badge.tone}`}>
          {badge.count}
          <span class="unseen"> {badge.meaning}</span>
        </span>
      )}
    </a>
  )
}

/** Warns on every page that its data is old. Meanwhile tokens.css replaces green by a neutral colour. */
function StaleNote() {
  const since = staleSince.value
  useLayoutEffect(() => {
    document.documentElement.toggleAttribute('data-stale', since !== null)
  }, [since])
  if (since === null) return null
  return (
    <div class="note tone-bad stale-note" role="alert">
      <Icon name="warning" />
      <div>
        <p>
          <strong>The data on this page is stale since {dayAndTime(since, readClock())}</strong> (
          <RelativeTime at={since} />
          ).
        </p>
        <p>The database could not be read since then, and payments may have changed. Decide nothing now.</p>
      </div>
    </div>
  )
}

const LIVE_WORDS = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
  off: 'Not live',
  stale: 'Stale',
}

function Live() {
  // If the connection is broken, shows that state instead of `stale`.
  const state = staleSince.value !== null && liveState.value === 'live' ? 'stale' : liveState.value
  return (
    <div class="live" data-state={state}>
      <span class="live-dot" aria-hidden="true" />
      {LIVE_WORDS[state]}
    </div>
  )
}

function leave(): void {
  void import('./SignIn.js').then(({ signOut }) => signOut())
}

function Controls() {
  return (
    <>
      <button type="button" class="button plain" onClick={toggleTheme}>
        <Icon name={theme.value === 'dark' ? 'sun' : 'moon'} size={16} />
        {theme.value === 'dark' ? 'Light' : 'Dark'}
      </button>
      <button type="button" class="button plain" onClick={() => (keysAreShown.value = true)}>
        <Icon name="keys" size={16} />
        Shortcuts
      </button>
      <p class="person" title="You act as this person">
        {me.value?.owner ?? '…'}
      </p>
      <button type="button" class="button plain" onClick={leave}>
        <Icon name="leave" size={16} />
        Sign out
      </button>
    </>
  )
}
