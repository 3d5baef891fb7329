// Package login verifies logins with auth methods and determines what they receive. It verifies
// the token that an identity provider signed, maps its claims, and evaluates the binding rules
// for roles and policies. Its input is the auth methods and binding rules of package acls. It
// does not access state and creates no ACL tokens: nomad/endpoint/acl does.
//
//	Login:        token ─▶ keys of the method ─▶ signature, issuer, audience, times ─┐
//	OIDC:  code ─▶ exchange ─▶ ID token ─▶ the same, and nonce ─▶ user info ────────┤
//	                                                                               ▼
//	                       Grant ◀─ roles, policies ◀─ rules' selectors ◀─ mapped claims
//
// All checks fail closed. The allowed algorithms are a list of names without symmetric ones,
// and a key is used only with an algorithm of its type. A selector that uses a missing claim
// does not match. A template that uses a missing claim binds nothing. Claims are inserted into
// names as text, and the result is validated as a name.
//
// The process that begins an OIDC login must also end it, within five minutes and only once.
// The data of the login is encrypted in the state parameter, which the browser returns.
//
// Connections to identity providers use verified TLS (plain HTTP only to loopback addresses)
// and no proxy. The size of answers is limited, and redirects must stay on the same host. Keys
// are cached. They are fetched again when they are old and, at most every ten seconds, for an
// unknown key ID. A goroutine outlives the call that started it by at most one request to a
// provider. Errors and log lines contain no tokens, codes, secrets or keys.
package login
