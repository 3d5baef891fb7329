package nomad

import (
	"errors"
	"slices"
	"strings"
)

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

// CheckSecretVariable returns an error if a job must not set an environment variable of a secrets plugin. Such a variable makes
// shells, interpreters and libraries run other code, or send their requests to a proxy. A plugin has the network of the node,
// and its executable can contain credentials, so that the author of a job must not control it. Variables of single programs,
// such as VAULT_ADDR, are allowed: a plugin that runs such a program sets them itself.
func CheckSecretVariable(name string) error {
	upper := strings.ToUpper(name)
	switch {
	case !plainVariable(name):
		return errors.New("a variable of a plugin's environment has only letters, digits and underscores, and does not begin with a digit")
	case slices.Contains(reservedVariables, upper), strings.HasSuffix(upper, "_PROXY"),
		slices.ContainsFunc(reservedPrefixes, func(begin string) bool { return strings.HasPrefix(upper, begin) }):
		return errors.New("this variable of a plugin's environment changes what shells, interpreters or libraries do, and jobs cannot set it: " +
			"use another name, or set it in the plugin")
	}
	return nil
}

func plainVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9' || i == 0) {
			return false
		}
	}
	return name != ""
}

// The variables that CheckSecretVariable refuses, in any case. Libraries read proxies in lower case too.
var (
	reservedPrefixes = []string{
		"LD_", "DYLD_", "GLIBC_", "MALLOC_", "BASH", "ZDOTDIR", "KSH_", "PYTHON", "PERL", "RUBY", "GEM_", "BUNDLE_", "NODE_", "NPM_", "DENO_", "BUN_",
		"JAVA_", "_JAVA_", "JDK_", "LUA_", "PHP", "DOTNET_", "COMPLUS_", "CORECLR_", "R_", "GCONV_", "OPENSSL_", "SSL_", "SSLKEY", "GIT_", "CURL_",
		"REQUESTS_CA_", "RES_",
	}
	reservedVariables = []string{
		"PATH", "HOME", "IFS", "ENV", "PS4", "SHELLOPTS", "SHELL", "CDPATH", "GLOBIGNORE", "FPATH", "TMPDIR", "TMP", "TEMP", "CLASSPATH",
		"GODEBUG", "GOCOVERDIR", "GOTRACEBACK", "HOSTALIASES", "LOCALDOMAIN",
		"RESOLV_HOST_CONF", "LOCPATH", "NLSPATH", "GETCONF_DIR", "TZDIR", "TERMINFO", "TERMINFO_DIRS", "TERMCAP", "EDITOR", "VISUAL", "PAGER",
		"LESSOPEN", "LESSCLOSE", "RUSTC_WRAPPER", "KRB5_CONFIG", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS",
		"PROMPT_COMMAND", "POSIXLY_CORRECT", "WGETRC", "NETRC",
	}
)
