// Package login has the parts that logins of workloads to Consul (client/consul/token) and to Vault (client/vault/token)
// share. It makes no request itself, and has no code of a product:
//
//	Secret          the secret of a token, which cannot be printed
//	Failure, Retry  the causes of failed logins, and the pauses after them
//	Requests        the limit of requests that run at a time
//	Logouts         the logouts of tokens that are no longer needed
//
// The life of a token in Logouts:
//
//	Add ──due──▶ Logout ──done, expired, or after a day──▶ Drop
//	               ▲  │
//	               └──┘ error: back off
//
// The tokens to log out are kept in memory. The caller stores them, so that the next agent adds them again. Logouts.Run is the
// only goroutine. A log line has the ID of a token, never its secret.
package login
