import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'

type Component<Props> = (props: Props) => JSX.Element

/** Returns a component whose code is loaded when it is first shown. Shows `Failed` if the code does not load. */
export function fetched<Props extends object>(load: () => Promise<Component<Props>>, Failed: Component<Props>) {
  return function Fetched(props: Props) {
    const [loaded, setLoaded] = useState<{ readonly Found: Component<Props> }>()
    useEffect(() => {
      const fetch = async () => {
        try {
          setLoaded({ Found: await load() })
        } catch {
          setLoaded({ Found: Failed })
        }
      }
      void fetch()
    }, [])
    if (loaded === undefined) return <></>
    return <loaded.Found {...props} />
  }
}
