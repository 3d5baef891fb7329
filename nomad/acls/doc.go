// Package acls is the vocabulary of access control: ACL tokens, policies, roles, auth
// methods, binding rules, one-time tokens and logins, with the bodies of their RPCs, as
// Nomad 2.0 names them. It holds validation, digests and stubs of these nouns.
//
// It never decides: nomad/authz resolves a caller to rights, and nomad/login checks the
// tokens of identity providers. Secrets print as their accessor or not at all.
package acls
