// Package token logs the tasks of a node in to Vault with their identities, and keeps the tokens of Vault that they get. It
// has one Manager per allocation, and one Node for all.
package token
