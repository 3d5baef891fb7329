package operator

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// entry is the output of operator raft logs for a log entry.
type entry struct {
	Index      uint64
	Term       uint64
	Type       string
	AppendedAt *time.Time `json:",omitempty"`
	Command    string     `json:",omitempty"`
	Body       any        `json:",omitempty"`
	Error      string     `json:",omitempty"` // why Body is missing
}

// printEntry prints one entry without secrets.
func printEntry(w io.Writer, l *raft.Log, pretty bool) error {
	shown := entry{Index: l.Index, Term: l.Term, Type: l.Type.String()}
	if !l.AppendedAt.IsZero() {
		at := l.AppendedAt.UTC()
		shown.AppendedAt = &at
	}
	var body any
	var err error
	switch l.Type {
	case raft.LogCommand:
		shown.Command, body, err = fsm.DecodeCommand(l.Data)
	case raft.LogConfiguration:
		body = raft.DecodeConfiguration(l.Data)
	}
	if err == nil && body != nil {
		shown.Body, err = redacted(body)
	}
	if err != nil {
		shown.Error = err.Error()
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if pretty {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(shown)
}

// redactedText replaces a secret.
const redactedText = "<redacted>"

// secretFields are the names of fields with secrets or encrypted data, in any object. Mount flags may be passwords.
var secretFields = []string{"SecretID", "OneTimeSecretID", "BootstrapSecret", "AuthToken", "ConsulToken", "VaultToken", "SignedIdentities",
	"KeyEncryptionKey", "WrappedKey", "WrappedDataEncryptionKey", "WrappedRSAKey", "Ciphertext", "Plaintext", "RSAKey", "OIDCClientSecret",
	"PrivateKey", "PemKey", "ClientSecret", "Secrets", "MountFlags", "Token"}

// jwt is the shape of a signed token.
var jwt = pattern.Lazy(`^eyJ[\w-]+\.[\w-]+\.[\w-]+$`)

// redacted encodes a value of package nomad as JSON by its wire names, without secrets.
func redacted(v any) (any, error) {
	var text []byte
	if err := codec.NewEncoderBytes(&text, stateHandle).Encode(v); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var generic any
	if err := dec.Decode(&generic); err != nil {
		return nil, err
	}
	return redact(generic), nil
}

// redact replaces the secrets in a JSON value.
func redact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		_, encrypted := v["KeyID"]
		for name, field := range v {
			switch {
			case slices.Contains(secretFields, name) || encrypted && name == "Data":
				if field != nil && field != "" {
					v[name] = redactedText
				}
			default:
				v[name] = redact(field)
			}
		}
	case []any:
		for i := range v {
			v[i] = redact(v[i])
		}
	case string:
		if jwt().MatchString(v) {
			return redactedText
		}
	}
	return v
}
