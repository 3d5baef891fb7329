package nodes

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Limits of challenges.
const (
	challengeLife = 30 * time.Second
	maxSpent      = 1 << 16 // challenges within challengeLife that were used
)

// Sizes of the parts of a nonce: its time, random bytes and a MAC.
const (
	nonceTime   = 8
	nonceRandom = 16
	nonceSize   = nonceTime + nonceRandom + sha256.Size
)

// challenges issues nonces for registrations and accepts each one once. Only used ones are stored: a MAC
// proves the others. The key of the MAC is that of this process, so a new leader accepts no nonce of the
// previous one.
type challenges struct {
	key [32]byte

	mu    sync.Mutex
	spent map[string]time.Time // nonces by the time when they expire
}

func newChallenges() *challenges {
	c := &challenges{spent: map[string]time.Time{}}
	rand.Read(c.key[:]) // never fails: crypto/rand ends the process instead
	return c
}

// issue returns a nonce for a node and its public key.
func (c *challenges) issue(node string, public []byte, now time.Time) []byte {
	nonce := binary.BigEndian.AppendUint64(make([]byte, 0, nonceSize), uint64(now.UnixNano()))
	nonce = nonce[:nonceTime+nonceRandom]
	rand.Read(nonce[nonceTime:])
	return append(nonce, c.mac(nonce, node, public)...)
}

// mac authenticates the first parts of a nonce for a node and its public key.
func (c *challenges) mac(nonce []byte, node string, public []byte) []byte {
	h := hmac.New(sha256.New, c.key[:])
	h.Write(nonce)
	h.Write(public) // of a fixed size
	h.Write([]byte(node))
	return h.Sum(nil)
}

// check accepts a nonce of this process while it is valid, whether or not it is spent.
func (c *challenges) check(nonce []byte, node string, public []byte, now time.Time) error {
	if len(nonce) != nonceSize || !hmac.Equal(nonce[nonceTime+nonceRandom:], c.mac(nonce[:nonceTime+nonceRandom], node, public)) {
		return errChallenge
	}
	if age := now.Sub(issued(nonce)); age < 0 || age > challengeLife {
		return errChallenge
	}
	return nil
}

// issued returns the time of a nonce.
func issued(nonce []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(nonce))) }

// spend accepts a nonce that check accepts, once.
func (c *challenges) spend(nonce []byte, node string, public []byte, now time.Time) error {
	if err := c.check(nonce, node, public, now); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, used := c.spent[string(nonce)]; used {
		return errChallenge
	}
	if len(c.spent) >= maxSpent {
		for n, end := range c.spent {
			if now.After(end) {
				delete(c.spent, n)
			}
		}
	}
	if len(c.spent) >= maxSpent {
		return apierror.Errorf(429, "too many nodes register at a time: try again")
	}
	c.spent[string(nonce)] = issued(nonce).Add(challengeLife)
	return nil
}

// errChallenge is returned for a nonce that is not valid, for example because the leader has changed.
var errChallenge = apierror.Errorf(409, "the challenge of the registration is not valid any more: request a new one")

// Challenge returns a nonce, with which an agent proves in Register that it has the private key of its
// node.
func (s *Service) Challenge(_ context.Context, _ *rpc.Call, req *message.NodeChallengeRequest) (*message.NodeChallengeResponse, error) {
	if req.NodeID == "" || len(req.NodeID) > maxNodeID || len(req.Key) != ed25519.PublicKeySize {
		return nil, apierror.Errorf(400, "a challenge needs a node ID and an Ed25519 public key")
	}
	return &message.NodeChallengeResponse{Nonce: s.challenges.issue(req.NodeID, req.Key, s.Now())}, nil
}

// maxNodeID limits the bytes of a node ID, which is a UUID.
const maxNodeID = 128
