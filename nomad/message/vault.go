package message

import "time"

// VaultTokenStatus describes the token of a task in Vault. It never has the token itself.
type VaultTokenStatus struct {
	AllocID string
	Task    string
	Cluster string
	Role    string // with which the task logs in, "" for the default of Vault
	// Lease is the life of the token from its login or its last renewal on. 0 means that it does not end.
	Lease       time.Duration
	Renewable   bool
	Expires     time.Time // zero if it does not end, or there is no token
	NextRenewal time.Time // zero for none
	// Error is the cause of the last login or renewal that failed, in words, "" after a success.
	Error   string
	ErrorAt time.Time
}
