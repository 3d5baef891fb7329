package gossip

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// ErrNotEncrypted is returned by key operations when gossip is not encrypted.
var ErrNotEncrypted = apierror.Errorf(400, "gossip is not encrypted: no key is configured; set server.encrypt on "+
	"all servers and restart them")

// ParseKey decodes a key. Its error never contains the input.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("gossip key is not base64: 16, 24 or 32 bytes in base64 are expected")
	}
	if n := len(key); n != 16 && n != 24 && n != 32 {
		return nil, fmt.Errorf("gossip key has %d bytes: 16, 24 or 32 in base64 are expected", n)
	}
	return key, nil
}

// openRing returns the keys of the file, the first of which encrypts. Without a file the configured
// key is the only one and is written to a new file. Nil means no encryption.
func (c *Config) openRing() (*memberlist.Keyring, error) {
	keys, err := readKeys(c.KeyFile)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		if len(c.Key) > 0 && subtle.ConstantTimeCompare(keys[0], c.Key) == 0 {
			c.Log.Warn("ignoring server.encrypt: the key file has other keys after a rotation", "file", c.KeyFile)
		}
		return memberlist.NewKeyring(keys, keys[0])
	}
	if len(c.Key) == 0 {
		return nil, nil
	}
	ring, err := memberlist.NewKeyring(nil, c.Key)
	if err != nil {
		return nil, fmt.Errorf("gossip key of %d bytes: 16, 24 or 32 are expected", len(c.Key))
	}
	return ring, writeKeys(c.KeyFile, ring.GetKeys())
}

// readKeys reads a key file. It returns no keys if the file does not exist.
func readKeys(path string) ([][]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open gossip keys: %w", err)
	}
	defer f.Close() // only read from
	if err := f.Chmod(0o600); err != nil {
		return nil, fmt.Errorf("protect gossip keys: %w", err)
	}
	var texts []string
	bad := func(what string) error {
		return fmt.Errorf("gossip keys in %s: %s: copy the file of another server, or remove it and set server.encrypt to the current key",
			path, what)
	}
	if err := json.NewDecoder(f).Decode(&texts); err != nil { // the error is omitted: it may quote a key
		return nil, bad("not a JSON array of keys")
	}
	if len(texts) == 0 {
		return nil, bad("no key in the array")
	}
	var keys [][]byte
	for i, text := range texts {
		key, err := ParseKey(text)
		if err != nil {
			return nil, bad(fmt.Sprintf("key %d: %v", i+1, err))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// writeKeys writes the key file atomically.
func writeKeys(path string, keys [][]byte) error {
	if path == "" {
		return nil
	}
	var texts []string
	for _, key := range keys {
		texts = append(texts, base64.StdEncoding.EncodeToString(key))
	}
	text, err := json.Marshal(texts)
	if err != nil {
		return fmt.Errorf("write gossip keys: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create directory of gossip keys: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".serf.keyring-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write gossip keys: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write gossip keys: %w", err), os.Remove(f.Name()))
	}
	if err := safefs.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write gossip keys: %w", err)
	}
	return nil
}

// Keys lists the keys of the members, with the number of members that have each.
func (p *Pool) Keys() (*message.KeyringResponse, error) {
	if !p.serf.EncryptionEnabled() {
		return nil, ErrNotEncrypted
	}
	resp, err := p.serf.KeyManager().ListKeys()
	return p.answer("list gossip keys", resp, err)
}

// InstallKey adds a key to all members. They decrypt with it from then on.
func (p *Pool) InstallKey(text string) (*message.KeyringResponse, error) {
	return p.change("install a gossip key", text, (*serf.KeyManager).InstallKey, nil)
}

// UseKey makes all members encrypt with a key that all of them have.
func (p *Pool) UseKey(text string) (*message.KeyringResponse, error) {
	return p.change("use a gossip key", text, (*serf.KeyManager).UseKey, func(now *message.KeyringResponse) error {
		if n := now.Keys[text]; n < now.NumNodes {
			return apierror.Errorf(400, "%d of %d servers have this gossip key: install it first", n, now.NumNodes)
		}
		return nil
	})
}

// RemoveKey removes a key from all members. No member may encrypt with it.
func (p *Pool) RemoveKey(text string) (*message.KeyringResponse, error) {
	return p.change("remove a gossip key", text, (*serf.KeyManager).RemoveKey, func(now *message.KeyringResponse) error {
		switch n := now.PrimaryKeys[text]; {
		case n > 0:
			return apierror.Errorf(400, "%d of %d servers encrypt with this gossip key, it is the primary one: use "+
				"another key first", n, now.NumNodes)
		case now.Keys[text] == 0:
			return apierror.Errorf(400, "no server has this gossip key")
		}
		return nil
	})
}

// change runs one key operation on all members, after check accepted their current keys.
func (p *Pool) change(what, text string, do func(*serf.KeyManager, string) (*serf.KeyResponse, error),
	check func(*message.KeyringResponse) error) (*message.KeyringResponse, error) {
	if !p.serf.EncryptionEnabled() {
		return nil, ErrNotEncrypted
	}
	if _, err := ParseKey(text); err != nil {
		return nil, apierror.Errorf(400, "%s: %v", what, err)
	}
	if check != nil {
		now, err := p.Keys()
		if err == nil {
			err = check(now)
		}
		if err != nil {
			return nil, err
		}
	}
	resp, err := do(p.serf.KeyManager(), text)
	if err == nil {
		p.cfg.Log.Info("gossip keys changed", "done", what, "servers", resp.NumNodes)
	}
	return p.answer(what, resp, err)
}

// answer converts the answers of the members. Failed members miss a change and would be rejected
// later, so they are listed.
func (p *Pool) answer(what string, resp *serf.KeyResponse, err error) (*message.KeyringResponse, error) {
	out := &message.KeyringResponse{Messages: map[string]string{}}
	if resp != nil {
		out.Keys, out.PrimaryKeys, out.NumNodes = resp.Keys, resp.PrimaryKeys, resp.NumNodes
		for name, text := range resp.Messages {
			// A malformed answer may contain a key.
			text, _, _ = strings.Cut(text, ": [")
			out.Messages[name] = text
		}
	}
	for _, m := range p.Members() {
		if m.Status == Failed {
			out.Messages[m.Name] = "member has failed and missed this change: with other keys it is rejected when it returns"
		}
	}
	if err == nil {
		return out, nil
	}
	var failures []string
	for _, name := range slices.Sorted(maps.Keys(out.Messages)) {
		failures = append(failures, name+": "+out.Messages[name])
	}
	if len(failures) == 0 {
		return out, fmt.Errorf("%s: %w: try again, the operation is idempotent", what, err)
	}
	return out, fmt.Errorf("%s: %w: %s", what, err, strings.Join(failures, "; "))
}
