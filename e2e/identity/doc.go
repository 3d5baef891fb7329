// Package identity tests tokens of workloads and nodes over their life: issue, renewal, expiry, SPIFFE, single
// sign-on and trust of other services.
package identity
