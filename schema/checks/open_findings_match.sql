-- reconciliation_open_findings, which alerts read, holds exactly the findings without a closing.
SELECT format('finding %s', COALESCE(f.finding_id, o.finding_id)) AS object,
  CASE WHEN f.finding_id IS NULL THEN 'closed' ELSE format('open, %s, %s', f.kind, f.severity) END AS expected,
  CASE WHEN o.finding_id IS NULL THEN 'closed' ELSE format('open, %s, %s', o.kind, o.severity) END AS found
FROM (
  SELECT g.finding_id, g.kind, g.severity FROM reconciliation_findings g
  WHERE NOT EXISTS (SELECT 1 FROM reconciliation_closings c WHERE c.finding_id = g.finding_id)
) f
FULL JOIN reconciliation_open_findings o ON o.finding_id = f.finding_id
WHERE (o.kind = f.kind AND o.severity = f.severity) IS NOT TRUE;
