package kms

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// Config is one key management service: a keyring block of the agent. Its printed form omits the
// settings, some of which are secrets.
type Config struct {
	Provider string
	Name     string
	// Active wraps new root keys with the service. An inactive one only opens keys.
	Active bool
	// Keys are the settings of the provider, by name.
	Keys map[string]string
}

// ID distinguishes services, and is stored with the keys that they wrapped.
func (c Config) ID() string {
	if c.Name == "" {
		return c.Provider
	}
	return c.Provider + "." + c.Name
}

// String shows the ID only.
func (c Config) String() string { return "kms(" + c.ID() + ")" }

// GoString is String, so that %#v prints no value either.
func (c Config) GoString() string { return c.String() }

// LogValue is String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Shown returns the settings with secrets redacted.
func (c Config) Shown() map[string]string {
	out := map[string]string{}
	for key, text := range c.Keys {
		if s, known := settingOf(c.Provider, key); text != "" && (!known || s.secret) {
			text = "<redacted>"
		}
		out[key] = text
	}
	return out
}

// Fault is an error in a key of a Config, or in the Config as a whole if Key is "". It contains no
// value.
type Fault struct{ Key, Text string }

// setting is one key of a provider.
type setting struct {
	name     string
	env      []string // environment variables for the default; the first that is set
	deflt    string
	required bool
	secret   bool
	refers   bool // the value may be file:///path or env://NAME
	yes      bool // boolean
}

// settings are the keys of each provider, with the names of the wrapping library. The configuration
// takes precedence over the environment, so that two blocks of one provider can differ.
var settings = map[string][]setting{
	string(rootkey.KEKProviderAEAD): {},
	string(rootkey.KEKProviderVaultTransit): {
		{name: "address", env: []string{"VAULT_ADDR"}, deflt: "https://127.0.0.1:8200"},
		{name: "token", env: []string{"VAULT_TOKEN"}, secret: true, refers: true},
		{name: "key_name", required: true}, {name: "mount_path", deflt: "transit/"},
		{name: "namespace", env: []string{"VAULT_NAMESPACE"}},
		{name: "tls_ca_cert", env: []string{"VAULT_CACERT"}}, {name: "tls_ca_path", env: []string{"VAULT_CAPATH"}},
		{name: "tls_client_cert", env: []string{"VAULT_CLIENT_CERT"}},
		{name: "tls_client_key", env: []string{"VAULT_CLIENT_KEY"}, secret: true},
		{name: "tls_server_name", env: []string{"VAULT_TLS_SERVER_NAME"}},
		{name: "tls_skip_verify", env: []string{"VAULT_SKIP_VERIFY"}, yes: true},
		{name: "disable_renewal", yes: true}, {name: "key_id_prefix"},
	},
	string(rootkey.KEKProviderAWSKMS): {
		{name: "kms_key_id", env: []string{"AWSKMS_WRAPPER_KEY_ID", "VAULT_AWSKMS_SEAL_KEY_ID"}, required: true},
		{name: "region"}, {name: "endpoint", env: []string{"AWS_KMS_ENDPOINT"}},
		{name: "access_key", secret: true, refers: true}, {name: "secret_key", secret: true, refers: true},
		{name: "session_token", secret: true, refers: true},
		{name: "shared_creds_filename"}, {name: "shared_creds_profile"}, {name: "web_identity_token_file"},
		{name: "role_session_name"}, {name: "role_arn"},
	},
	string(rootkey.KEKProviderGCPCloudKMS): {
		{name: "project", env: []string{"GOOGLE_PROJECT"}, required: true}, {name: "region", env: []string{"GOOGLE_REGION"}, required: true},
		{name: "key_ring", env: []string{"GCPCKMS_WRAPPER_KEY_RING", "VAULT_GCPCKMS_SEAL_KEY_RING"}, required: true},
		{name: "crypto_key", env: []string{"GCPCKMS_WRAPPER_CRYPTO_KEY", "VAULT_GCPCKMS_SEAL_CRYPTO_KEY"}, required: true},
		{name: "credentials", env: []string{"GOOGLE_CREDENTIALS"}, secret: true},
	},
	string(rootkey.KEKProviderAzureKeyVault): {
		{name: "vault_name", env: []string{"AZUREKEYVAULT_WRAPPER_VAULT_NAME", "VAULT_AZUREKEYVAULT_VAULT_NAME"}, required: true},
		{name: "key_name", env: []string{"AZUREKEYVAULT_WRAPPER_KEY_NAME", "VAULT_AZUREKEYVAULT_KEY_NAME"}, required: true},
		{name: "tenant_id", env: []string{"AZURE_TENANT_ID"}}, {name: "client_id", env: []string{"AZURE_CLIENT_ID"}},
		{name: "client_secret", env: []string{"AZURE_CLIENT_SECRET"}, secret: true, refers: true},
		{name: "environment", env: []string{"AZURE_ENVIRONMENT"}}, {name: "resource", env: []string{"AZURE_AD_RESOURCE"}},
	},
}

// together lists pairs of keys that must both be set.
var together = map[string][2]string{
	string(rootkey.KEKProviderAWSKMS):       {"access_key", "secret_key"},
	string(rootkey.KEKProviderVaultTransit): {"tls_client_cert", "tls_client_key"},
}

func settingOf(provider, key string) (setting, bool) {
	all := settings[provider]
	at := slices.IndexFunc(all, func(s setting) bool { return s.name == key })
	if at < 0 {
		return setting{}, false
	}
	return all[at], true
}

// Complete adds the values of the environment and the defaults, and returns all faults.
func (c Config) Complete(env func(string) string) (Config, []Fault) {
	all, known := settings[c.Provider]
	if !known {
		return c, []Fault{{"", fmt.Sprintf("unknown provider, want one of %s", strings.Join(slices.Sorted(maps.Keys(settings)), ", "))}}
	}
	var faults []Fault
	for _, key := range slices.Sorted(maps.Keys(c.Keys)) {
		if _, known := settingOf(c.Provider, key); !known {
			faults = append(faults, Fault{key, c.Provider + " has no such key"})
		}
	}
	if strings.ContainsFunc(c.Name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		faults = append(faults, Fault{"name", "must be a name without spaces"})
	}
	filled := maps.Clone(c.Keys)
	if filled == nil {
		filled = map[string]string{}
	}
	for _, s := range all {
		if f := s.fill(filled, env); f != nil {
			faults = append(faults, *f)
		}
	}
	if pair, ok := together[c.Provider]; ok && (filled[pair[0]] == "") != (filled[pair[1]] == "") {
		faults = append(faults, Fault{pair[0], pair[0] + " and " + pair[1] + " must both be set"})
	}
	c.Keys = filled
	return c, faults
}

// fill stores the value of the setting in keys, or returns a fault.
func (s setting) fill(keys map[string]string, env func(string) string) *Fault {
	text := keys[s.name]
	for i := 0; text == "" && i < len(s.env); i++ {
		text = env(s.env[i])
	}
	if text == "" {
		text = s.deflt
	}
	if text != "" {
		keys[s.name] = text
	}
	if _, err := strconv.ParseBool(text); s.yes && text != "" && err != nil {
		return &Fault{s.name, "must be true or false"}
	}
	if s.required && text == "" {
		how := ""
		if len(s.env) > 0 {
			how = ", here or with " + s.env[0] + " in the environment of the agent"
		}
		return &Fault{s.name, "must be set" + how}
	}
	return nil
}

// secrets returns the values that errors must not contain.
func (c Config) secrets() []string {
	var out []string
	for key, text := range c.Keys {
		if s, known := settingOf(c.Provider, key); text != "" && (!known || s.secret) {
			out = append(out, text)
		}
	}
	return out
}
