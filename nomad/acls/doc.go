// Package acls defines the data types of access control: ACL tokens, policies, roles, auth methods, binding rules,
// one-time tokens and logins. It contains the bodies of their RPCs, with the names of Nomad 2.0, and their validation,
// digests and stubs.
//
// It makes no access decisions: nomad/authz resolves a caller to rights, and nomad/login verifies the tokens of identity
// providers. Values with secrets print as their accessor or name, or not at all.
package acls
