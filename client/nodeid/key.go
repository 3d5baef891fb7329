package nodeid

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// keyFile is the file of the node's key pair in the state directory: PKCS #8 in PEM, with the ID of the
// node in a header. Its mode is 0600.
const keyFile = "node-key"

const (
	keyBlock  = "PRIVATE KEY"
	keyHeader = "Node-ID"
)

// key is the key pair of a node. It signs registrations and does not print its private key.
type key struct{ private ed25519.PrivateKey }

// Format prints no key material, whatever the verb.
func (key) Format(f fmt.State, _ rune) { io.WriteString(f, "node key") }

// LogValue implements slog.LogValuer like Format.
func (key) LogValue() slog.Value { return slog.StringValue("node key") }

func (k key) public() []byte { return k.private.Public().(ed25519.PublicKey) }

// loadKey returns the key pair of the node with the ID. It creates one if the file does not exist, or is
// that of another node: then the operator has removed the node's ID to join as a new node.
func loadKey(dir, id string) (key, error) {
	path := filepath.Join(dir, keyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(path, id)
	}
	if err != nil {
		return key{}, fmt.Errorf("read the node's key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyBlock || block.Headers[keyHeader] == "" {
		return key{}, fmt.Errorf("read the node's key: %s is damaged: restore it from a backup, or remove it and purge the node", path)
	}
	if block.Headers[keyHeader] != id {
		return newKey(path, id)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return key{}, fmt.Errorf("read the node's key: %s: %w", path, err)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return key{}, fmt.Errorf("read the node's key: %s is not an Ed25519 key", path)
	}
	return key{private}, nil
}

// newKey creates a key pair and writes it to a file.
func newKey(path, id string) (key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return key{}, fmt.Errorf("create the node's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return key{}, fmt.Errorf("create the node's key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Headers: map[string]string{keyHeader: id}, Bytes: der})
	return key{private}, writeAtomic(path, text)
}

// Prove adds the node's key and a proof of its possession to a registration. Servers of other projects
// have no challenges; the node then registers without a key.
func (i *Identity) Prove(ctx context.Context, servers message.Caller, req *message.NodeRegisterRequest) error {
	ask := message.NodeChallengeRequest{NodeID: i.ID, Key: i.key.public(), WriteRequest: req.WriteRequest}
	var resp message.NodeChallengeResponse
	err := servers.Call(ctx, "Node.Challenge", &ask, &resp)
	if errors.Is(err, apierror.ErrUnknownMethod) || errors.Is(err, apierror.ErrNoMethod) {
		i.log.Debug("registering without the node's key, which the servers do not support")
		return nil
	}
	if err != nil {
		return fmt.Errorf("request a challenge: %w", err)
	}
	req.Node.Key = ask.Key
	req.Proof = &message.NodeProof{Nonce: resp.Nonce, Signature: ed25519.Sign(i.key.private, message.NodeProofMessage(req.Node, resp.Nonce))}
	return nil
}
