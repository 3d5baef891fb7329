// Package login has what the logins of workloads share, in whatever product they log in: the secret of a token, the reasons
// and the pauses of failed logins, the limit of requests, and the logouts of tokens that are not needed any more. The
// products are Consul (client/consul/token) and Vault (client/vault/token). It knows neither.
package login
