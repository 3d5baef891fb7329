package message

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"github.com/open-nomad/open-nomad/nomad"
)

// NodeChallengeRequest is the request of Node.Challenge: an agent that is about to register a node with a key.
type NodeChallengeRequest struct {
	NodeID string
	Key    []byte
	WriteRequest
}

// NodeChallengeResponse is the reply of Node.Challenge.
type NodeChallengeResponse struct {
	Nonce []byte
	WriteMeta
}

// NodeProof proves that an agent has the private key of the node that it registers (open-nomad only). It is part of
// the request, never of the log.
type NodeProof struct {
	// Nonce is the challenge of the leader.
	Nonce []byte
	// Signature is an Ed25519 signature of NodeProofMessage.
	Signature []byte
}

// NodeProofMessage returns the bytes that an agent signs to register a node. They contain what identifies the node and
// the agent, and the challenge.
func NodeProofMessage(n *nomad.Node, nonce []byte) []byte {
	session := ""
	if n.Session != nil {
		session = n.Session.ID
	}
	secret := sha256.Sum256([]byte(n.SecretID))
	out := []byte("open-nomad node registration 1")
	for _, part := range []string{n.ID, string(secret[:]), string(n.Key), n.Name, n.NodePool, n.Datacenter, session, string(nonce)} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// Proves reports whether a proof is signed with the key of the node.
func (p *NodeProof) Proves(n *nomad.Node) bool {
	return p != nil && len(n.Key) == ed25519.PublicKeySize && ed25519.Verify(n.Key, NodeProofMessage(n, p.Nonce), p.Signature)
}
