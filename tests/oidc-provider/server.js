// A real OpenID provider for the end-to-end tests of logins, on a port of loopback. The argument is a JSON object:
//   port            where to listen
//   people          a file: { subject: { claim: value } }; it is read at each login, so that a test can change it
//   redirect_uris   of the one client, muster
//   client_secret   none for a public client
//   device          whether there is a device login; device_ttl is how long its codes are good, in seconds
//   claims_in_token whether the ID token has the claims of the scopes, or only the user info
// The forms are those of the library: any password will do, and the user name is the subject.
import { createPrivateKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Provider } from 'oidc-provider';

const settings = JSON.parse(process.argv[2]);
const issuer = `http://127.0.0.1:${settings.port}`;

// Each start has a key of its own. It takes the way through PEM because Node 20 can hang when a key is exported as JWK while
// the job that made it is collected.
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const key = { ...createPrivateKey(privateKey).export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' };

const grants = ['authorization_code'];
if (settings.device) grants.push('urn:ietf:params:oauth:grant-type:device_code');

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'muster',
      ...(settings.client_secret ? { client_secret: settings.client_secret } : {}),
      token_endpoint_auth_method: settings.client_secret ? 'client_secret_basic' : 'none',
      redirect_uris: settings.redirect_uris,
      response_types: ['code'],
      grant_types: grants,
    },
  ],
  jwks: { keys: [key] },
  cookies: { keys: [randomUUID()] },
  pkce: { required: () => true },
  features: { deviceFlow: { enabled: settings.device } },
  conformIdTokenClaims: !settings.claims_in_token,
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email', 'email_verified'] },
  ttl: { DeviceCode: settings.device_ttl ?? 600 },
  findAccount(_, subject) {
    const people = JSON.parse(readFileSync(settings.people, 'utf8'));
    if (!(subject in people)) return undefined;
    return { accountId: subject, claims: () => ({ sub: subject, ...people[subject] }) };
  },
});

provider.listen(settings.port, '127.0.0.1', () => console.log(`listening on ${issuer}`));
