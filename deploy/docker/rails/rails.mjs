// A simulated rail, which moves no money. docs/coding/writing-a-rail.md says how to write yours.
export default [
  {
    type: 'simulated',
    onUnknown: 'resend',
    dispatch: ({ reference }) => ({ outcome: 'success', reference: `paid-${reference}` }),
  },
]
