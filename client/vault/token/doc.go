// Package token logs the tasks of a node in to Vault with their identities, and keeps the tokens of Vault that they get. It
// has one Manager per allocation, and one Node for all.
//
//	                                               ┌──half of its life──▶ renew ─┐
//	                                               ▼                             │
//	Watch ──no token stored──▶ login ──stored──▶ valid ──its end is fixed────────┼──▶ login, before the end
//	  │                          ▲ │               ▲ ▲                           │
//	  │                          │ └─error: back off └─── error: back off ◀──────┤
//	  │                        lost               accepted                       │
//	  │                          │                   │                           │
//	  └──stored───────────────▶ look up ─────────────┘ ◀──Rejected, Confirm──────┘ the renewal is denied
//
// A task with a vault block logs in when its hook watches the token, which is at its first start. A failed login is repeated:
// after seconds if Vault does not answer, is sealed or fails, and after minutes if it refuses the login. The task gets one
// event for each cause, and one when the login succeeds. An allocation never fails because of a login. A newer
// identity does not cause a login. Renewals that fail are logged, and an event follows when less than a third of the token's
// life remains.
//
// A token is stored before it is used. A restarted agent looks a stored token up, and goes on with its renewal. A token is
// renewed at half of its life, and again until its end if that fails. A new login follows at once when Vault does not have the
// token any more, or when it has ended. Renewals do not extend the life of a batch token, of one at its maximum, and of one
// that may not renew itself. Its new login is made at four fifths of the life. A token without an end is only kept.
//
// With allow_token_expiration, a token is neither renewed nor replaced. After its end, requests get status 403. A new login
// follows at the next start of the task.
//
// The replaced token is revoked a minute later, also by a restarted agent. A lost one is revoked at once, in case Vault has it
// after all. EndTask revokes the token of a task that is dead, and End all tokens of an allocation; a paused task keeps its
// token. End waits one second at most. Node.Run repeats revocations that fail, for a day, and Node.Leftovers begins those of
// allocations that ended while no agent ran. A batch token cannot be revoked: it remains valid until its end. So does a token
// whose policies do not let it revoke itself, and one of an earlier address of Vault.
//
// Goroutines: Node.Run, with one for revocations and one for each login. Manager.Run, with one for each task. At most
// maxLogins logins and maxRequests other requests run at a time. A login that its task no longer needs is continued, because
// Vault may have made a token already, which is then revoked. No token, JWT or answer of Vault is logged, or part of an event
// or error.
package token
