package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

// How long a login may take, and how many ended logins are recorded to refuse their reuse.
const (
	pendingWithin = 5 * time.Minute
	maxEnded      = 10_000
)

// pending manages the OIDC logins in progress. All data of a login is in its state parameter,
// encrypted with a key of this process. A login in progress takes no memory, so nobody can
// evict the logins of others. Only the states of ended logins are recorded, until they expire.
// If there are too many, the oldest are dropped; the identity provider accepts a code only once
// in any case.
//
// A state is the base64url encoding of a 12-byte nonce and an AES-256-GCM ciphertext. The
// plaintext has three parts:
//
//	8 bytes     start time of the login, in nanoseconds, big endian
//	32 bytes    digest of method, nonce and redirect URI
//	the rest    PKCE verifier
type pending struct {
	now  func() time.Time
	seal cipher.AEAD

	mu    sync.Mutex
	ended map[[sha256.Size]byte]bool
	order []endedLogin // oldest first
}

// endedLogin is a used state.
type endedLogin struct {
	state [sha256.Size]byte
	begun time.Time
}

// login holds the data of a login.
type login struct {
	method   string
	nonce    string
	redirect string
	verifier string // PKCE verifier, or ""
}

// newPending returns a pending with a new key.
func newPending(now func() time.Time) *pending {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("login: bug: " + err.Error()) // the key has a valid size
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("login: bug: " + err.Error()) // AES has the right block size
	}
	return &pending{now: now, seal: seal, ended: map[[sha256.Size]byte]bool{}}
}

// begin returns the encrypted state of a login. Only this process can create one.
func (p *pending) begin(l login) (state string) {
	digest := l.digest()
	plain := binary.BigEndian.AppendUint64(nil, uint64(p.now().UnixNano()))
	plain = append(append(plain, digest[:]...), l.verifier...)
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nil, nil, plain, nil))
}

// end returns the login with the state, once. A caller with a wrong nonce or redirect URI does
// not end the login.
func (p *pending) end(state string, l login) (*login, bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil {
		return nil, false
	}
	plain, err := p.seal.Open(nil, nil, sealed, nil)
	if err != nil || len(plain) < 8+sha256.Size {
		return nil, false
	}
	begun := time.Unix(0, int64(binary.BigEndian.Uint64(plain)))
	digest := l.digest()
	if p.over(begun) || subtle.ConstantTimeCompare(plain[8:8+sha256.Size], digest[:]) != 1 {
		return nil, false
	}
	l.verifier = string(plain[8+sha256.Size:])
	return &l, p.use(endedLogin{sha256.Sum256(sealed), begun})
}

// use reports whether the login ends for the first time, and records it.
func (p *pending) use(e endedLogin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended[e.state] {
		return false
	}
	for len(p.order) > 0 && (p.over(p.order[0].begun) || len(p.order) >= maxEnded) {
		delete(p.ended, p.order[0].state)
		p.order = p.order[1:]
	}
	p.ended[e.state] = true
	p.order = append(p.order, e)
	return true
}

func (p *pending) over(begun time.Time) bool {
	return p.now().Sub(begun) >= pendingWithin
}

// digest covers the values that the end of a login must repeat.
func (l login) digest() (out [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range []string{l.method, l.nonce, l.redirect} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Sum(out[:0])
	return out
}
