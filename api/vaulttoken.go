package api

import "time"

// VaultToken describes the token of a task in Vault. It does not contain the token. It exists only in open-nomad.
type VaultToken struct {
	Namespace string // of the job
	JobID     string
	AllocID   string
	Task      string
	Cluster   string
	Role      string // "" for the default role of Vault
	// LoggedIn reports whether the task has a token. Otherwise the fields about its life are zero.
	LoggedIn bool
	// Lease is the lifetime of the token since its login or its last renewal. 0 means that it does not end.
	Lease       time.Duration
	Renewable   bool
	Expires     time.Time // zero if the token does not end, or there is none
	NextRenewal time.Time // zero for none
	Error       string    // cause of the last login or renewal that failed, "" after a success
	ErrorAt     time.Time
}
