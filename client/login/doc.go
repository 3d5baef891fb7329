// Package login has what the logins of workloads share, whatever product they log in to: the secret of a token (Secret), the
// causes and the pauses of failed logins (Failure, Retry), the limit of requests (Requests), and the logouts of tokens that
// are no longer needed (Logouts). The products are Consul (client/consul/token) and Vault (client/vault/token). The package
// makes no request itself, and has no code of a product.
//
//	Add ──due──▶ Logout ──done, expired, or after a day──▶ Forget
//	               ▲  │
//	               └──┘ error: back off
//
// The tokens to log out are kept in memory. The caller stores them, so that the next agent adds them again. Logouts.Run is the
// only goroutine. A log line has the ID of a token, never its secret.
package login
