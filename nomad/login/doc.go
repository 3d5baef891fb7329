// Package sso says who logs in, and what they may have: it verifies what an identity
// provider signed, maps its claims, and finds the rules that bind roles and policies to
// them. It knows auth methods and binding rules as package nomad has them; it reads no state,
// writes none, and makes no ACL token: package endpoint does.
//
//	Login:        token ─▶ keys of the method ─▶ signature, issuer, audience, times ─┐
//	OIDC:  code ─▶ exchange ─▶ ID token ─▶ the same, and nonce ─▶ user info ────────┤
//	                                                                               ▼
//	                       Grant ◀─ roles, policies ◀─ rules' selectors ◀─ mapped claims
//
// What is not certain is refused. Algorithms are a list of names, none of them symmetric; a
// key is used only with an algorithm of its kind. A selector that names a claim which is
// not there matches nobody, and a template that names one binds nothing. What a claim says
// is put into names as text and checked as a name afterwards.
//
// A login with OIDC is begun and ended by the same process, within five minutes, once. What
// it must know of the login is sealed into the state that the browser takes along.
//
// Identity providers are spoken to with verified TLS (plain HTTP only to loopback),
// no proxy, short answers, and redirects to the same host only. Their keys are cached, fetched
// again after a while and, at most every ten seconds, for an unknown key ID. No goroutine
// outlives the call that started it by more than one request to a provider. Tokens, codes, secrets and keys are
// in no error and no log line.
package login
