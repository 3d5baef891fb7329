// Package rbac defines the objects of access control, which the API calls ACL objects:
//
//	Token ───────────────────────▶ Policy ──JobACL──▶ workloads that have it without a token
//	  └──────────▶ Role ─────────────▲
//	                ▲                │
//	AuthMethod ◀── BindingRule ──────┘ after a login with the token of an identity provider
//
// A OneTimeToken stands for a Token once. An AuthenticatedIdentity is a caller. The text of a policy is parsed
// and decided by package acl, callers are authenticated by package authz, and objects are checked by package rules.
//
// Objects with secrets print as their accessor or name. Hashes cover the fields that an operator can set, so that
// replication finds changed objects. Values from state are shared: they are copied before a change. The package keeps no
// state and starts no goroutine.
package rbac
