// Search box. The rest of the site works without a script.
'use strict'
;(() => {
  const RESULTS_MAX = 12
  const root = document.documentElement.dataset.root
  const box = document.getElementById('search')
  const list = document.getElementById('found')
  const contents = document.querySelector('nav details')
  // On a phone, the contents start as a closed menu.
  if (matchMedia('(max-width: 52rem)').matches) contents.open = false
  box.hidden = false

  box.addEventListener('focus', loadIndex, { once: true })
  box.addEventListener('input', show)
  document.addEventListener('keydown', (event) => {
    const typing = event.target instanceof HTMLInputElement
    if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault()
      box.focus()
    } else if (event.key === 'Escape') {
      list.hidden = true
      box.blur()
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      move(event)
    } else if (event.key === 'Enter' && event.target === box) {
      list.querySelector('a')?.click()
    }
  })
  document.addEventListener('click', (event) => {
    if (!event.target.closest('.search')) list.hidden = true
  })

  function loadIndex() {
    const script = document.createElement('script')
    script.src = `${root}search-index.js`
    script.addEventListener('load', show)
    document.head.append(script)
  }

  function show() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean)
    list.hidden = words.length === 0 || window.symphonyIndex === undefined
    if (list.hidden) return
    const found = window.symphonyIndex
      .map((entry) => ({ entry, score: scoreOf(entry, words) }))
      .filter(({ score }) => score > 0)
    found.sort((a, b) => b.score - a.score)
    list.replaceChildren(...found.slice(0, RESULTS_MAX).map(({ entry }) => item(entry)))
    if (found.length === 0) list.append(nothing())
  }

  /**
   * Returns 0 unless every word occurs. Ranks titles before headings before text, and whole words before parts of
   * words.
   */
  function scoreOf([title, heading, , text], words) {
    let score = 0
    for (const word of words) {
      const best = Math.max(hit(title, word) * (heading === '' ? 12 : 2), hit(heading, word) * 8, hit(text, word))
      if (best === 0) return 0
      score += best
    }
    return score
  }

  function hit(text, word) {
    const at = ` ${text.toLowerCase()} `
    if (at.includes(` ${word} `)) return 3
    if (at.includes(` ${word}`)) return 2
    return at.includes(word) ? 1 : 0
  }

  function item([title, heading, address]) {
    const line = document.createElement('li')
    const link = document.createElement('a')
    link.href = root + address
    link.append(heading === '' ? title : heading)
    if (heading !== '') {
      const where = document.createElement('small')
      where.textContent = ` · ${title}`
      link.append(where)
    }
    line.append(link)
    return line
  }

  function nothing() {
    const line = document.createElement('li')
    const text = document.createElement('p')
    text.textContent = 'Nothing found.'
    line.append(text)
    return line
  }

  function move(event) {
    const links = [...list.querySelectorAll('a')]
    if (list.hidden || links.length === 0) return
    event.preventDefault()
    const at = links.indexOf(document.activeElement) + (event.key === 'ArrowDown' ? 1 : -1)
    if (at < 0) box.focus()
    else links[Math.min(at, links.length - 1)].focus()
  }
})()
