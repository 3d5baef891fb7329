// Package svid signs the identity documents of SPIFFE: X.509-SVIDs and JWT-SVIDs. It also builds the
// trust bundle, which holds the public keys that verify them.
//
//	root key ──HKDF──▶ authority ─┬─▶ CA key and certificate ──▶ X.509-SVIDs
//	                              └─▶ ES256 key ───────────────▶ JWT-SVIDs
//
// Each open root key of the keyring is the source of one authority. So the private keys are encrypted,
// replicated, rotated and deleted with the root keys, and no other record exists. All servers derive
// the same keys and the same certificate. The state of the root key decides what its authority does:
//
//	          prepublished ──▶ active ──▶ inactive, rekeying ──▶ removed
//	in bundle     yes           yes            yes                  no
//	signs         no            yes            until the next one is Overlap old
//
// An authority signs when its key has been in the bundle for Overlap, so that verifiers have the key by then.
// If no key is that old, the oldest one signs. A root key that this server cannot open has no authority.
//
// A JWT-SVID is never a token of the cluster: the keyring has no key with the ID in it.
//
// The package reads no state and starts no goroutine. Its only state is a cache of the authorities.
package svid
