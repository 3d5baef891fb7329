package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// maxShown limits the parts of a sentence, and maxCell the length of one, since Vault chooses them.
const maxShown, maxCell = 5, 120

// methodDiffers compares the configuration of an auth method that existed.
func (v *vaultSetup) methodDiffers(have map[string]any) (out []string) {
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("the auth method %q "+format, append([]any{vaultMethod}, args...)...))
	}
	if at := textOf(have["jwks_url"]); at != v.url {
		add("reads the keys from %s, not from -jwks-url.", shown(at))
	}
	if ca := textOf(have["jwks_ca_pem"]); strings.TrimSpace(ca) != strings.TrimSpace(v.ca) {
		add("has another CA for the keys than -jwks-ca-file.")
	}
	for _, alg := range vaultAlgorithms {
		if accepted, _ := have["jwt_supported_algs"].([]any); !slices.Contains(accepted, any(alg)) {
			add("does not accept %s: add it to jwt_supported_algs for identities with this signature.", alg)
		}
	}
	if role := textOf(have["default_role"]); role != vaultRole {
		add("has the default role %s. Jobs without a role use it, if create_from_role of the client is not set.", shown(role))
	}
	if iss := textOf(have["bound_issuer"]); iss != "" {
		add("accepts only identities of the issuer %s: set it as oidc_issuer of the servers.", shown(iss))
	}
	return out
}

// rolesOwn are fields of a role that a new one leaves at their defaults, and that change which tasks can log in, or the life of
// their tokens.
var rolesOwn = []string{"bound_claims", "bound_subject", "token_bound_cidrs", "token_explicit_max_ttl", "token_max_ttl", "token_no_default_policy",
	"token_num_uses", "token_ttl"}

// roleDiffers compares a role that existed.
func roleDiffers(have map[string]any) (out []string) {
	want := roleFields()
	if claim := textOf(have["user_claim"]); claim == "nomad_job_id" || claim == "/nomad_job_id" {
		out = append(out, fmt.Sprintf("the role %q has the user claim %s, as Nomad creates it: jobs with the same ID in several namespaces "+
			"share an entity, and can read the secrets of each other. Set user_claim to /sub.", vaultRole, claim))
		delete(want, "user_claim")
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(want)), rolesOwn) {
		is, new := normal(have[name]), normal(want[name])
		if is != new {
			out = append(out, fmt.Sprintf("the role %q has %s = %s, a new one has %s.", vaultRole, name, shown(is), new))
		}
	}
	return out
}

// normal returns a value as JSON, with sorted lists. All forms of an empty value are the same.
func normal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	var list []string
	if json.Unmarshal(text, &list) == nil && list != nil {
		slices.Sort(list)
		text, _ = json.Marshal(list) // strings are always valid
	}
	switch string(text) {
	case "null", `""`, "0", "false", "[]", "{}":
		return "none"
	}
	return string(text)
}

// pathRule matches one rule of a policy.
var pathRule = pattern.Lazy(`path\s+"([^"\n]+)"\s*\{\s*capabilities\s*=\s*\[([^\]]*)\]\s*\}`)

// rulesOf returns the rights of a policy by path. What it does not understand is missing.
func rulesOf(text string) map[string]string {
	out := map[string]string{}
	for _, m := range pathRule().FindAllStringSubmatch(text, -1) {
		rights := strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune("\", \t\r\n", r) })
		slices.Sort(rights)
		out[m[1]] = strings.Join(rights, ", ")
	}
	return out
}

// policyDiffers compares a policy that existed.
func (v *vaultSetup) policyDiffers(text string) []string {
	if v.mount == nil {
		return []string{fmt.Sprintf("the policy %q is of an auth method that does not exist any more. Tasks cannot read secrets: "+
			"delete the policy, then run the command again.", vaultPolicy)}
	}
	want := v.rules()
	if strings.TrimSpace(text) == strings.TrimSpace(want) {
		return nil
	}
	if !strings.Contains(text, v.mount.accessor) && strings.Contains(text, "identity.entity.aliases.") {
		return []string{fmt.Sprintf("the policy %q is of another auth method: its paths do not have the accessor %s. Tasks cannot read "+
			"secrets: delete the policy, then run the command again.", vaultPolicy, shown(v.mount.accessor))}
	}
	have, new := rulesOf(text), rulesOf(want)
	var lacks, extra []string
	for _, path := range slices.Sorted(maps.Keys(new)) {
		if have[path] != new[path] {
			lacks = append(lacks, fmt.Sprintf("%s on %s", new[path], v.plain(path)))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(have)) {
		if have[path] != new[path] {
			extra = append(extra, shown(have[path]+" on "+v.plain(path)))
		}
	}
	var out []string
	if len(lacks) > 0 {
		out = append(out, fmt.Sprintf("the policy %q lacks %s.", vaultPolicy, brief(lacks)))
	}
	if len(extra) > 0 {
		out = append(out, fmt.Sprintf("the policy %q also has %s.", vaultPolicy, brief(extra)))
	}
	return out
}

// plain returns a path with the names of claims instead of their templates.
func (v *vaultSetup) plain(path string) string {
	return strings.ReplaceAll(strings.ReplaceAll(path, "{{identity.entity.aliases."+v.mount.accessor+".metadata.", "<"), "}}", ">")
}

// brief joins the first parts of a list.
func brief(list []string) string {
	if more := len(list) - maxShown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxShown], ", "), more)
	}
	return strings.Join(list, ", ")
}

// shown returns a value of Vault for a sentence.
func shown(text string) string {
	if len(text) > maxCell {
		text = text[:maxCell] + "…"
	}
	if text == "" {
		return "none"
	}
	return term.Cell(strings.ToValidUTF8(text, "?"))
}

// textOf returns a value of an answer that should be a string, "" if it is another one.
func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// keysOf returns the names in a list of Vault, sorted.
func keysOf(s *api.Secret) (out []string) {
	if s == nil {
		return nil
	}
	list, _ := s.Data["keys"].([]any)
	for _, k := range list {
		out = append(out, textOf(k))
	}
	slices.Sort(out)
	return out
}
