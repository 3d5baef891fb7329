package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// csiSecretsHeader has the secrets of requests that have no body.
const csiSecretsHeader = "X-Nomad-CSI-Secrets"

// SetHeadersFromCSISecrets sets the header with secrets for a read. The header cannot express every secret: see
// CSISecrets.Check.
func (o *QueryOptions) SetHeadersFromCSISecrets(secrets CSISecrets) {
	o.Headers = secrets.addTo(o.Headers)
}

// SetHeadersFromCSISecrets sets the header with secrets for a write. The header cannot express every secret: see
// CSISecrets.Check.
func (o *WriteOptions) SetHeadersFromCSISecrets(secrets CSISecrets) {
	o.Headers = secrets.addTo(o.Headers)
}

// Check returns an error if the header of requests without a body cannot express the secrets: a key with "=", or a
// comma or a control character. The error has no values.
func (s CSISecrets) Check() error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if key == "" || strings.Contains(key, "=") {
			return fmt.Errorf("the key %q of a secret is empty or contains \"=\", which a request header cannot have", key)
		}
		if bad := func(r rune) bool { return r == ',' || r < ' ' || r == 0x7f }; strings.ContainsFunc(key+s[key], bad) {
			return fmt.Errorf("secret %q contains a comma or a control character, which a request header cannot have", key)
		}
		if strings.TrimSpace(key) != key || strings.TrimSpace(s[key]) != s[key] {
			return fmt.Errorf("secret %q begins or ends with a space, which a request header cannot have", key)
		}
	}
	return nil
}

// addTo returns a copy of headers with the secrets, sorted by key.
func (s CSISecrets) addTo(headers map[string]string) map[string]string {
	out := maps.Clone(headers)
	if out == nil {
		out = map[string]string{}
	}
	var pairs []string
	for key, value := range s {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	out[csiSecretsHeader] = strings.Join(pairs, ",")
	return out
}

// withCSISecrets returns a copy of the options with the header of the secrets.
func (o *QueryOptions) withCSISecrets(secrets CSISecrets) (*QueryOptions, error) {
	out := QueryOptions{}
	if o != nil {
		out = *o
	}
	if len(secrets) > 0 {
		out.SetHeadersFromCSISecrets(secrets)
	}
	return &out, secrets.Check()
}

// withCSISecrets returns a copy of the options with the header of the secrets.
func (o *WriteOptions) withCSISecrets(secrets CSISecrets) (*WriteOptions, error) {
	out := WriteOptions{}
	if o != nil {
		out = *o
	}
	if len(secrets) > 0 {
		out.SetHeadersFromCSISecrets(secrets)
	}
	return &out, secrets.Check()
}
