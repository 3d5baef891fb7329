package nomad

// Secret is a secret block: the values at the path of a secrets provider, to which a task refers as ${secret.NAME.KEY}.
type Secret struct {
	Name     string
	Provider string // SecretProviderNomad, SecretProviderVault, or the name of a plugin
	Path     string
	Config   map[string]any    // of the built-in providers
	Env      map[string]string // of plugins
}

// The built-in providers of secrets. Others are plugins of the nodes.
const (
	SecretProviderNomad = "nomad"
	SecretProviderVault = "vault"
)

// Keys of the config of secret blocks, and the values of SecretConfigEngine.
const (
	SecretConfigNamespace = "namespace" // of a variable; default: that of the job
	SecretConfigEngine    = "engine"    // of Vault; default: SecretEngineKV
	SecretEngineKV        = "kv"
	SecretEngineKV2       = "kv_v2"
)

// SecretsAttribute returns the attribute of nodes with the version of a secrets provider.
func SecretsAttribute(provider string) string { return "plugins.secrets." + provider + ".version" }

// ConfigText returns a text of the config, or "".
func (s *Secret) ConfigText(key string) string {
	text, _ := s.Config[key].(string)
	return text
}

// Plugin reports whether the provider is a plugin.
func (s *Secret) Plugin() bool {
	return s.Provider != SecretProviderNomad && s.Provider != SecretProviderVault
}
