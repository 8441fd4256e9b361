-- Refuses an unsuitable server before anything is created.

DO $$
BEGIN
  IF current_setting('server_version_num')::integer < 150000 THEN
    RAISE EXCEPTION 'Symphony needs PostgreSQL 15 or newer; this server is %', current_setting('server_version')
      USING ERRCODE = 'feature_not_supported', HINT = 'Upgrade the server, or point DATABASE_URL at a newer one.';
  END IF;
  -- Hashes cover UTF-8 text. In another encoding the same payment would have another hash.
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'Symphony needs a database with encoding UTF8; this one has %', current_setting('server_encoding')
      USING ERRCODE = 'feature_not_supported',
        HINT = 'Create one: CREATE DATABASE name ENCODING ''UTF8'' TEMPLATE template0;';
  END IF;
  -- person_key compares names without letter case. ICU folds case in the same way in every locale.
  IF NOT EXISTS (SELECT 1 FROM pg_collation WHERE collname = 'und-x-icu') THEN
    RAISE EXCEPTION 'Symphony needs a PostgreSQL server with ICU; this database has no collation und-x-icu'
      USING ERRCODE = 'feature_not_supported',
        HINT = 'Use a server built with ICU, as the packages of PostgreSQL are, '
          'or run pg_import_system_collations(''pg_catalog'').';
  END IF;
END
$$;
