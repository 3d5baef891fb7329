package jobrules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
)

// Limits of the secret blocks of a task.
const (
	maxSecrets    = 100
	maxSecretPath = 1024 // bytes
	maxSecretEnv  = 100  // variables
)

var (
	secretName     = pattern.Lazy(`^[a-zA-Z0-9_]{1,128}$`)
	secretProvider = pattern.Lazy(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,127}$`) // the name of a file
)

// validateSecrets checks the secret blocks of a task.
func validateSecrets(t *nomad.Task, f *faults) {
	if len(t.Secrets) > maxSecrets {
		f.add("the task has %d secret blocks: the limit is %d", len(t.Secrets), maxSecrets)
		return
	}
	for _, s := range t.Services {
		if s != nil && refersToSecret(s.Name) {
			f.add("the name of service %q refers to a secret, and names are public: use another value", s.Name)
		}
	}
	seen := map[string]bool{}
	for _, s := range t.Secrets {
		if seen[s.Name] {
			f.add("Duplicate secret %q found", s.Name)
		}
		seen[s.Name] = true
		if s.Provider == nomad.SecretProviderVault && t.Vault == nil {
			f.add("Secret %q has provider \"vault\" but no vault block", s.Name)
		}
		for _, err := range secretFaults(s) {
			f.add("Secret %q is invalid: %v", s.Name, err)
		}
	}
}

// refersToSecret reports whether a text has a reference to a secret. The client ignores white space around a name.
func refersToSecret(text string) bool {
	for found := true; found; {
		if _, text, found = strings.Cut(text, "${"); strings.HasPrefix(strings.TrimLeftFunc(text, unicode.IsSpace), "secret.") {
			return true
		}
	}
	return false
}

// secretsOfGroup returns a warning for each service of a group that refers to a secret. Secrets belong to tasks.
func secretsOfGroup(tg *nomad.TaskGroup, at string) (out []string) {
	for _, s := range tg.Services {
		if slices.ContainsFunc(slices.Concat(catalogTexts(s), checkTexts(s)), refersToSecret) {
			out = append(out, fmt.Sprintf("%s: service %q refers to a secret, which stays as it is written: only services of tasks have secrets: "+
				"move the service into a task", at, s.Name))
		}
		if len(out) == maxFaults {
			break
		}
	}
	return out
}

// secretsInCatalog returns a warning for each service of a task that has a secret in the catalog.
func secretsInCatalog(t *nomad.Task, at string) (out []string) {
	for _, s := range t.Services {
		if slices.ContainsFunc(catalogTexts(s), refersToSecret) {
			out = append(out, fmt.Sprintf("%s: service %q has a secret in its tags, meta or addresses, which are public: everyone who can read "+
				"services sees it: use env or a template", at, s.Name))
		}
		if len(out) == maxFaults {
			break
		}
	}
	return out
}

// catalogTexts returns the texts of a service that clients interpolate and register in the catalog.
func catalogTexts(s *nomad.Service) []string {
	out := slices.Concat([]string{s.Name, s.PortLabel, s.Address}, s.Tags, s.CanaryTags)
	for _, pairs := range []map[string]string{s.Meta, s.CanaryMeta, s.TaggedAddresses} {
		out = slices.AppendSeq(slices.AppendSeq(out, maps.Keys(pairs)), maps.Values(pairs))
	}
	return out
}

// checkTexts returns the texts of the checks of a service that clients interpolate. The body is not one of them.
func checkTexts(s *nomad.Service) (out []string) {
	for _, c := range s.Checks {
		out = append(out, c.Name, c.Type, c.Command, c.Path, c.Protocol, c.PortLabel, c.Method, c.Notes, c.GRPCService, c.InitialStatus)
		out = append(out, c.Args...)
		for name, values := range c.Header {
			out = append(append(out, name), values...)
		}
	}
	return out
}

// secretFaults returns the errors of a secret block.
func secretFaults(s *nomad.Secret) (errs []error) {
	switch {
	case s.Name == "":
		errs = append(errs, errors.New("secret name cannot be empty"))
	case !secretName().MatchString(s.Name):
		errs = append(errs, fmt.Errorf("secret name must match regex %s", secretName()))
	}
	switch {
	case s.Provider == "":
		errs = append(errs, errors.New("secret provider cannot be empty"))
	case !secretProvider().MatchString(s.Provider):
		errs = append(errs, fmt.Errorf("secret provider %q is not the name of a plugin, which matches %s", s.Provider, secretProvider()))
	}
	switch {
	case s.Path == "":
		errs = append(errs, errors.New("secret path cannot be empty"))
	case len(s.Path) > maxSecretPath:
		errs = append(errs, fmt.Errorf("secret path has %d bytes: the limit is %d", len(s.Path), maxSecretPath))
	case strings.ContainsFunc(s.Path, unicode.IsControl):
		errs = append(errs, errors.New("secret path contains a control character"))
	case s.Path[0] == '-':
		errs = append(errs, errors.New("secret path begins with a dash, so that a plugin could read it as an option"))
	case refersToSecret(s.Path):
		errs = append(errs, errors.New("secret path refers to a secret, which other users of the node could read: paths are public"))
	}
	if s.Provider == "" {
		return errs
	}
	if s.Plugin() {
		return append(errs, pluginSecret(s)...)
	}
	if len(s.Env) > 0 {
		errs = append(errs, fmt.Errorf("%s provider cannot use the env block", s.Provider))
	}
	return append(errs, builtInSecret(s)...)
}

// pluginSecret checks what only plugins have.
func pluginSecret(s *nomad.Secret) (errs []error) {
	if len(s.Config) > 0 {
		errs = append(errs, fmt.Errorf("custom plugin provider %s cannot use the config block", s.Provider))
	}
	if len(s.Env) > maxSecretEnv {
		return append(errs, fmt.Errorf("env has %d variables: the limit is %d", len(s.Env), maxSecretEnv))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if err := nomad.CheckSecretVariable(k); err != nil {
			errs = append(errs, fmt.Errorf("the env key %q: %w", untrusted.Shorten(k, maxShown), err))
		}
		if strings.ContainsRune(s.Env[k], 0) {
			errs = append(errs, fmt.Errorf("the value of the env key %q contains a NUL character", untrusted.Shorten(k, maxShown)))
		}
	}
	return errs
}

// secretConfig has the keys of the config of each built-in provider.
var secretConfig = map[string]string{
	nomad.SecretProviderNomad: nomad.SecretConfigNamespace,
	nomad.SecretProviderVault: nomad.SecretConfigEngine,
}

// builtInSecret checks the config of a built-in provider.
func builtInSecret(s *nomad.Secret) (errs []error) {
	known := secretConfig[s.Provider]
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		if key != known {
			errs = append(errs, fmt.Errorf("config has the unknown key %q: provider %s has only %s", key, s.Provider, known))
		} else if text, ok := s.Config[key].(string); !ok || strings.ContainsFunc(text, unicode.IsControl) {
			errs = append(errs, fmt.Errorf("%s of config is not a string without control characters", key))
		} else if refersToSecret(text) {
			errs = append(errs, fmt.Errorf("%s of config refers to a secret, which other users could read: use another value", key))
		}
	}
	engines := []string{"", nomad.SecretEngineKV, nomad.SecretEngineKV2}
	if engine := s.ConfigText(nomad.SecretConfigEngine); !slices.Contains(engines, engine) {
		errs = append(errs, fmt.Errorf("engine is %q: use kv or kv_v2", engine))
	}
	return errs
}
