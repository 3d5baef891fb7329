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

// How long a login may take, and how many ended logins are kept to refuse a second end.
const (
	pendingWithin = 5 * time.Minute
	maxEnded      = 10_000
)

// pending are the logins that a browser was sent away for. What must be known of a login
// is in its state, sealed with a key of this process: a login that was begun takes no
// memory here, so that no number of strangers evicts the login of another. Only the
// states of ended logins are kept, until they expire. Who ends many drops the oldest of
// these; the identity provider takes a code once in any case.
//
// A state is base64url of a nonce of 12 bytes and of AES-256-GCM over: 8 bytes the time
// at which the login began (nanoseconds, big endian), 32 bytes the digest of method, nonce
// and redirect URI, the rest the verifier of PKCE.
type pending struct {
	now  func() time.Time
	seal cipher.AEAD

	mu    sync.Mutex
	ended map[[sha256.Size]byte]bool
	order []endedLogin // the oldest first
}

// endedLogin is a state that was used.
type endedLogin struct {
	state [sha256.Size]byte
	begun time.Time
}

// login is one that was begun.
type login struct {
	method   string
	nonce    string
	redirect string
	verifier string // of PKCE, "" without
}

// newPending returns a pending with a key of its own.
func newPending(now func() time.Time) *pending {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("sso: bug: " + err.Error()) // the key has a valid size
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("sso: bug: " + err.Error()) // the block size is that of AES
	}
	return &pending{now: now, seal: seal, ended: map[[sha256.Size]byte]bool{}}
}

// begin returns the sealed state of a login. Only this process can make one.
func (p *pending) begin(l login) (state string) {
	digest := l.digest()
	plain := binary.BigEndian.AppendUint64(nil, uint64(p.now().UnixNano()))
	plain = append(append(plain, digest[:]...), l.verifier...)
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nil, nil, plain, nil))
}

// end returns the login that a state belongs to, once. Who does not know its nonce, and
// the redirect URI, does not end it for who does.
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

// use reports whether the login ends for the first time.
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

// digest is of what the end of a login must repeat.
func (l login) digest() (out [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range []string{l.method, l.nonce, l.redirect} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Sum(out[:0])
	return out
}
