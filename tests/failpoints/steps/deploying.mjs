// Steps for further deployments and their checks, on the database and release of the scenario.
export function deployingSteps(tools) {
  const { deployment, admin, adminUrl, schema, sleep } = tools
  const target = { url: adminUrl, schema }

  return {
    'a deployment without changes': async () => {
      await deployment.deploy(target)
      await deployment.deploy({ ...target, dryRun: true })
      await deployment.deploy({ ...target, rolesOnly: true })
      await deployment.deploy({ ...target, createLogins: [{ name: 'step_clerk', roles: ['readonly'] }] })
    },
    'a deployment that removes an outdated function': async () => {
      await admin(
        `SET ROLE symphony_owner; CREATE OR REPLACE FUNCTION of_an_earlier_release() RETURNS integer LANGUAGE sql AS 'SELECT 1'`,
      )
      await deployment.deploy({ ...target, reapply: true })
      await deployment.deploy({ ...target, reapply: true, dedicatedDatabase: true })
    },
    'a deployment by a login that grants itself the owner role': async () => {
      await admin(`
        DO $$ BEGIN
          IF to_regrole('step_deployer') IS NULL THEN CREATE ROLE step_deployer LOGIN CREATEROLE PASSWORD 'step'; END IF;
        END $$;
        GRANT symphony_owner TO step_deployer WITH ADMIN TRUE, INHERIT FALSE, SET FALSE`)
      const own = new URL(adminUrl)
      own.username = 'step_deployer'
      own.password = 'step'
      await deployment.deploy({ url: own.href, schema, reapply: true })
    },
    'a deployment that waits for a lock': async () => {
      const { default: pg } = await import('pg')
      const holder = new pg.Client({ connectionString: adminUrl })
      await holder.connect()
      await holder.query(`BEGIN; LOCK TABLE "${schema}".payment_outbox_pending IN ACCESS EXCLUSIVE MODE`)
      const deployed = deployment.deploy({ ...target, reapply: true })
      // The attempt times out on the lock, and the deployment repeats it.
      const isWaiting = async () => {
        const locks = await holder.query(
          `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = '"${schema}".payment_outbox_pending'::regclass)`,
        )
        return locks.rows[0].exists
      }
      while (!(await isWaiting())) await sleep(10)
      while (await isWaiting()) await sleep(10)
      await holder.query('ROLLBACK')
      await holder.end()
      await deployed
    },
    'reads of a deployment': async () => {
      await deployment.checkStart(target)
      await deployment.describeDeployment(target)
      await deployment.doctor({ ...target, full: true })
    },
  }
}
