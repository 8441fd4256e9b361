import { useState } from 'preact/hooks'
import type { Limit, LimitBody, LimitProposal } from '../../http/index.js'
import { approveLimit, listLimits, proposeLimit, proposeLimitRemoval, withdrawLimit } from '../data/api.js'
import { exactDuration } from '../data/format.js'
import { hasScope } from '../data/me.js'
import { useResource } from '../data/useResource.js'
import { ActionForm } from '../parts/ActionForm.js'
import { Dialog } from '../parts/Dialog.js'
import { Empty } from '../parts/Empty.js'
import { formText } from '../parts/formText.js'
import { Icon } from '../parts/Icon.js'
import { grouped } from '../parts/Money.js'
import { KindChoices } from '../parts/KindChoices.js'
import { Panel } from '../parts/Panel.js'
import { OpenProposal } from '../parts/ProposalNote.js'
import { ReasonDialog, ReasonField } from '../parts/ReasonDialog.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { ResourceView } from '../parts/ResourceView.js'
import { TextField } from '../parts/TextField.js'
import { Table } from '../parts/Table.js'

type Rule = NonNullable<LimitProposal['rule']>
type Kind = Rule['kind']

export function Limits() {
  const limits = useResource({
    key: 'limits',
    load: listLimits,
    concerns: ({ type }) => type === 'status',
    everyMs: 5_000,
  })
  const [isProposing, setIsProposing] = useState(false)
  const [removed, setRemoved] = useState<Limit | null>(null)
  return (
    <>
      <header class="page-head">
        <h1>Limits</h1>
        <p class="lead">Rules that hold unusual payments at enqueue until people decide. Two people set a limit.</p>
      </header>
      <div class="stack">
        <ResourceView from={limits} lines={6}>
          {({ limits: all, proposals }) => (
            <>
              {proposals.length === 0 ? null : (
                <Panel title="Open proposals">
                  <div class="stack">
                    {proposals.map((proposal) => (
                      <ProposedLimit key={proposal.proposalId} proposal={proposal} onDone={limits.refresh} />
                    ))}
                  </div>
                </Panel>
              )}
              <Panel
                title="Limits in force"
                aside={hasScope('operate') ? <ProposeButton onClick={() => setIsProposing(true)} /> : undefined}
                flush
              >
                {all.length === 0 ? (
                  <Empty title="No limit is set">
                    <p>A limit holds payments above an amount, or beyond a sum or a number per hour or day.</p>
                  </Empty>
                ) : (
                  <LimitTable limits={all} onRemove={setRemoved} />
                )}
              </Panel>
            </>
          )}
        </ResourceView>
      </div>
      {isProposing ? <ProposeDialog onClose={() => setIsProposing(false)} onDone={limits.refresh} /> : null}
      {removed === null ? null : (
        <ReasonDialog
          title={`Remove ${removed.name}`}
          action="Propose the removal"
          explanation="The limit stays in force until another person approves the removal."
          onClose={() => setRemoved(null)}
          act={async (reason) => {
            await proposeLimitRemoval(removed.name, reason)
            limits.refresh()
            return `The removal of ${removed.name} is proposed.`
          }}
        />
      )}
    </>
  )
}

function ProposeButton({ onClick }: { readonly onClick: () => void }) {
  return (
    <button type="button" class="button small" onClick={onClick}>
      Propose a limit
    </button>
  )
}

interface LimitTableProps {
  readonly limits: readonly Limit[]
  /** Absent on read-only pages. */
  readonly onRemove?: (limit: Limit) => void
}

export function LimitTable({ limits, onRemove }: LimitTableProps) {
  return (
    <Table label="Limits in force" columns={['Name', 'Payments of', 'Rule', 'Used', 'Set', '']}>
      {limits.map((limit) => (
        <tr key={limit.name}>
          <td data-label="Name">
            <strong>{limit.name}</strong>
          </td>
          <td data-label="Payments of">{subjectOf(limit)}</td>
          <td data-label="Rule">{ruleText(limit)}</td>
          <td data-label="Used">
            {limit.used === null ? '–' : moneyText(limit.used, limit.currency)}
            {limit.exceededAt === null ? null : <Exceeded at={limit.exceededAt} />}
          </td>
          <td data-label="Set" class="text">
            <RelativeTime at={limit.setAt} /> <div class="quiet">by {limit.setBy}</div>
          </td>
          <td class={onRemove !== undefined && hasScope('operate') ? 'actions' : 'empty-cell'}>
            {onRemove !== undefined && hasScope('operate') ? (
              <button
                type="button"
                class="button small"
                aria-label={`Remove ${limit.name}`}
                onClick={() => onRemove(limit)}
              >
                Remove
              </button>
            ) : null}
          </td>
        </tr>
      ))}
    </Table>
  )
}

function Exceeded({ at }: { readonly at: string }) {
  return (
    <div>
      <span class="state tone-held">
        <Icon name="held" />
        Exceeded
      </span>{' '}
      <RelativeTime at={at} />
    </div>
  )
}

function ProposedLimit({ proposal, onDone }: { readonly proposal: LimitProposal; readonly onDone: () => void }) {
  const { proposalId, name, rule } = proposal
  const meaning = rule === null ? 'Remove the limit' : `${subjectOf(rule)}: ${ruleText(rule)}`
  return (
    <OpenProposal
      proposal={proposal}
      title={name}
      name={name}
      stays="The limit stays as it is."
      approve={(onClose) => (
        <Dialog title={`Approve ${name}?`} onClose={onClose}>
          <ActionForm
            action="Approve it"
            onDone={onClose}
            act={async () => {
              await approveLimit(proposalId)
              onDone()
              return rule === null ? `The limit ${name} is removed.` : `The limit ${name} is in force.`
            }}
          >
            <p>
              <strong>{meaning}</strong>
            </p>
            <p>It takes effect at once, for payments enqueued from now on. Your name is recorded with the approval.</p>
          </ActionForm>
        </Dialog>
      )}
      withdraw={async (reason) => {
        await withdrawLimit(proposalId, reason)
        onDone()
      }}
    >
      <p>{meaning}</p>
    </OpenProposal>
  )
}

interface ProposeDialogProps {
  readonly onClose: () => void
  readonly onDone: () => void
}

function ProposeDialog({ onClose, onDone }: ProposeDialogProps) {
  const [kind, setKind] = useState<Kind>('approval')
  const act = async (form: FormData) => {
    const name = formText(form, 'name')
    await proposeLimit({ name, rule: ruleIn(form, kind), reason: formText(form, 'reason') })
    onDone()
    return `The limit ${name} is proposed.`
  }
  return (
    <Dialog title="Propose a limit" onClose={onClose}>
      <ActionForm action="Propose it" onDone={onClose} act={act}>
        <p>It takes effect when another person approves it. A limit of the same name is replaced.</p>
        <KindChoices legend="Kind of limit" kinds={KINDS} chosen={kind} onChoose={setKind} />
        <TextField name="name" label="Name of the limit" required />
        <div class="row">
          <TextField name="railType" label="Rail" hint="A rail, a participant or both." />
          <TextField name="participantId" label="Participant" />
        </div>
        <div class="row">
          <TextField
            name="limit"
            label={kind === 'count' ? 'Number of payments' : 'Amount'}
            pattern={kind === 'count' ? '[0-9]+' : '[0-9]+([.][0-9]+)?'}
            required
          />
          {kind === 'count' ? null : <TextField name="currency" label="Currency" pattern="[A-Z]{3}" required />}
        </div>
        {kind === 'approval' ? (
          <div class="field">
            <label for="limit-approvals">Released by</label>
            <select id="limit-approvals" name="approvals" class="input">
              <option value="1">one person</option>
              <option value="2">two people</option>
            </select>
          </div>
        ) : (
          <div class="field">
            <label for="limit-window">Window</label>
            <select id="limit-window" name="windowSeconds" class="input">
              <option value="3600">one hour</option>
              <option value="86400">one day</option>
              <option value="604800">seven days</option>
            </select>
          </div>
        )}
        <ReasonField />
      </ActionForm>
    </Dialog>
  )
}

const KINDS: Readonly<Record<Kind, { readonly label: string; readonly hint: string }>> = {
  approval: {
    label: 'Approval above an amount',
    hint: 'A payment above it is held until one or two people release it.',
  },
  amount: { label: 'Amount per window', hint: 'The payment that would exceed the sum, and those after it, are held.' },
  count: { label: 'Number of payments per window', hint: 'The same for the number of payments, of any currency.' },
}

/** Returns the rule in the form, without empty fields. */
function ruleIn(form: FormData, kind: Kind): LimitBody['rule'] {
  const given = (name: string) => (form.has(name) ? formText(form, name) : '')
  const text = (name: 'railType' | 'participantId' | 'currency') => (given(name) === '' ? {} : { [name]: given(name) })
  return {
    kind,
    limit: given('limit'),
    ...text('railType'),
    ...text('participantId'),
    ...text('currency'),
    ...(kind === 'approval' ? { approvals: Number(given('approvals')) } : {}),
    ...(kind === 'approval' ? {} : { windowSeconds: Number(given('windowSeconds')) }),
  }
}

function subjectOf({ railType, participantId }: Pick<Rule, 'railType' | 'participantId'>): string {
  const rail = railType === null ? '' : `rail ${railType}`
  const participant = participantId === null ? '' : `participant ${participantId}`
  return [rail, participant].filter((part) => part !== '').join(', ')
}

function ruleText({ kind, limit, currency, windowSeconds, approvals }: Rule): string {
  if (kind === 'approval') {
    return `above ${moneyText(limit, currency)}: ${approvals === 2 ? 'two people release' : 'one person releases'} it`
  }
  const what = kind === 'count' ? `${grouped(limit)} payments` : moneyText(limit, currency)
  return `at most ${what} per ${exactDuration(windowSeconds ?? 0)}`
}

function moneyText(amount: string, currency: string | null): string {
  return currency === null ? grouped(amount) : `${grouped(amount)}\u00a0${currency}`
}
