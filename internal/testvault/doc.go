// Package testvault is a strict stand-in of Vault and OpenBao, for tests. It serves the part of their HTTP API that an
// orchestrator and its templates use: logins by JWT, tokens, policies, key-value engines, certificates, leases and seals.
// No program imports it. A Transit is another server, with the engine that encrypts the keyring's keys only.
//
//	Start ──▶ unsealed ──Seal──▶ sealed ──Unseal──▶ unsealed
//	             └──Restart──▶ unsealed, with the same state and new connections
//
// Strict: a call that a correct client never makes is a fault, such as an unknown path or JSON field, a missing token, a
// token without the right, or a token where none belongs. A fault fails the test at its end, unless the test expects it:
// see Vault.Expect. The texts of faults contain no token. An answer by a Mode or a seal is not a fault.
//
// Engines: secret/ is kv version 2, kv/ is version 1, pki/ issues certificates, and paths of Vault.Dynamic have leases.
// Tests add other mounts of the same types with the API. A lease ends with its token. Policies may be templated with the
// metadata of an alias. The clock is the real one plus what Vault.Advance added. The sockets are real, so a test cannot
// run the stand-in in a bubble of testing/synctest.
//
// Not supported, and a fault: response wrapping, entities beyond the metadata of the alias, check-and-set, and namespaces
// other than Config.Namespace. The goroutines are those of HTTP. All end with the test.
package testvault
