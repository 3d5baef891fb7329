package testtokens

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Bad returns tokens that every entry point must refuse, each with a unique name.
func (m Maker) Bad() []Token {
	out := slices.Concat(m.algorithms(), m.keyIDs(), m.headers(), m.signatures(), m.forms(), m.encodings(), m.times(), m.audiences(),
		m.payloads(), m.kinds())
	slices.SortFunc(out, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// forms returns strings without three parts, or too long.
func (m Maker) forms() []Token {
	good := m.Good()
	p := strings.Split(good, ".")
	out := []Token{
		{Name: "one part", Raw: p[0]}, {Name: "two parts", Raw: p[0] + "." + p[1]}, {Name: "four parts", Raw: good + ".AAAA"},
		{Name: "five parts, as JWE", Raw: good + ".AAAA.AAAA"},
		{Name: "JWE", Raw: encode([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + "..AAAA.AAAA.AAAA"}, {Name: "five empty parts", Raw: "...."},
		{Name: "six parts", Raw: good + "." + good},
		{Name: "dot", Raw: "."}, {Name: "two dots", Raw: ".."}, {Name: "dot before", Raw: "." + good}, {Name: "dot behind", Raw: good + "."},
		{Name: "no header", Raw: "." + p[1] + "." + p[2]}, {Name: "no payload", Raw: p[0] + ".." + p[2]},
		{Name: "no signature", Raw: p[0] + "." + p[1] + "."},
		{Name: "parts exchanged", Raw: p[1] + "." + p[0] + "." + p[2]}, {Name: "header thrice", Raw: p[0] + "." + p[0] + "." + p[0]},
		{Name: "7000 dots", Raw: strings.Repeat(".", 7000)}, {Name: "a million dots", Raw: strings.Repeat(".", 1_000_000)},
		{Name: "a MiB of A", Raw: strings.Repeat("A", 1<<20)},
		{Name: "payload of a MiB", Raw: p[0] + "." + strings.Repeat("A", 1<<20) + "." + p[2]}, {Name: "8 KiB and one", Raw: pad(m, 8<<10+1)},
		{Name: "16 KiB, signed", Raw: m.Sign(m.With(map[string]any{"x": strings.Repeat("y", 12<<10)}))},
		{Name: "JSON form", Raw: `{"payload":"` + p[1] + `","protected":"` + p[0] + `","signature":"` + p[2] + `"}`},
		{Name: "general JSON form", Raw: `{"payload":"` + p[1] + `","signatures":[{"protected":"` + p[0] + `","signature":"` + p[2] + `"}]}`},
		{Name: "a word", Raw: "root"}, {Name: "words", Raw: "let me in"}, {Name: "quoted", Raw: `"` + good + `"`},
		{Name: "in base64", Raw: encode([]byte(good))}, {Name: "PASETO", Raw: "v4.public." + p[1]},
	}
	return out
}

// pad returns a signed token of this size, padded in the payload.
func pad(m Maker, size int) string {
	for n := size - len(m.Good()); ; n-- {
		if raw := m.Sign(m.With(map[string]any{"x": strings.Repeat("y", max(n, 0))})); len(raw) <= size || n <= 0 {
			return raw + strings.Repeat("A", size-len(raw))
		}
	}
}

// encodings returns other encodings of a good token.
func (m Maker) encodings() []Token {
	good := m.Good()
	p := strings.Split(good, ".")
	sig := decodePart(p[2])
	loose := func(part string) string { // the same bytes, other last bits
		b := []byte(part)
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		b[len(b)-1] = alphabet[strings.IndexByte(alphabet, b[len(b)-1])|1]
		return string(b)
	}
	standard := base64.StdEncoding.EncodeToString
	out := []Token{
		{Name: "padded", Raw: good + "=="}, {Name: "padded once", Raw: good + "="},
		{Name: "all parts padded", Raw: padded(p[0]) + "." + padded(p[1]) + "." + padded(p[2])},
		{Name: "payload padded", Raw: p[0] + "." + p[1] + "=." + p[2]},
		{Name: "standard alphabet", Raw: p[0] + "." + p[1] + "." + strings.TrimRight(standard(other62(sig)), "=")},
		{Name: "last bits of the signature", Raw: p[0] + "." + p[1] + "." + loose(p[2])},
		{Name: "line end in the signature", Raw: p[0] + "." + p[1] + "." + p[2][:20] + "\n" + p[2][20:]},
		{Name: "CR in the payload", Raw: p[0] + "." + p[1][:8] + "\r" + p[1][8:] + "." + p[2]},
		{Name: "line end in the header", Raw: p[0][:4] + "\n" + p[0][4:] + "." + p[1] + "." + p[2]},
		{Name: "space in the payload", Raw: p[0] + "." + p[1][:8] + " " + p[1][8:] + "." + p[2]},
		{Name: "NUL inside", Raw: p[0] + "." + p[1] + "\x00." + p[2]}, {Name: "NUL behind", Raw: good + "\x00"},
		{Name: "BOM before", Raw: "\ufeff" + good}, {Name: "full-width dots", Raw: strings.ReplaceAll(good, ".", "\uff0e")},
		{Name: "percent dots", Raw: strings.ReplaceAll(good, ".", "%2E")},
		{Name: "a letter of another script", Raw: strings.Replace(good, "e", "\u0435", 1)}, {Name: "zero-width space", Raw: good + "\u200b"},
		{Name: "Bearer twice", Raw: "Bearer " + good}, {Name: "two tokens", Raw: good + "," + good},
		{Name: "in capitals", Raw: strings.ToUpper(good)}, {Name: "not UTF-8", Raw: good + "\xff"},
	}
	return out
}

// times returns tokens that are not valid now.
func (m Maker) times() []Token {
	const day = 86400
	now := m.Now.Unix()
	var out []Token
	add := func(name string, set map[string]any) { out = append(out, Token{Name: name, Raw: m.Sign(m.With(set))}) }
	for _, claim := range []string{"exp", "nbf", "iat"} {
		for name, v := range map[string]any{"negative": -1, "very negative": -1 << 62, "a fraction": float64(now) + 0.5, "text": fmt.Sprint(now),
			"a list": []int64{now}, "an object": map[string]any{}, "true": true,
			"2^60": 1 << 60, "more than an int64": bigNumber("99999999999999999999"), "with an exponent": bigNumber("1e9"),
			"infinite": bigNumber("1e999"), "a date": "2030-01-01T00:00:00Z"} {
			add(claim+" is "+name, map[string]any{claim: v})
		}
		out = append(out, Token{Name: claim + " is null",
			Raw: m.forge(m.header(), strings.Replace(asJSON(m.With(map[string]any{claim: "\x01"})), asJSON("\x01"), "null", 1))})
	}
	add("no nbf", map[string]any{"nbf": nil})
	add("no iat", map[string]any{"iat": nil})
	add("nbf zero", map[string]any{"nbf": 0})
	add("iat zero", map[string]any{"iat": 0})
	add("not yet", map[string]any{"nbf": now + day}) // a test may take minutes
	add("made in the future", map[string]any{"iat": now + day})
	add("year 10000", map[string]any{"exp": 253_402_300_800})
	for name, ago := range map[string]int64{"over a while ago": 120, "over a year ago": 365 * day, "over since 1970": now - 1} {
		out = append(out, Token{Name: name, Past: true,
			Raw: m.Sign(m.With(map[string]any{"exp": now - ago, "nbf": begin(now - ago), "iat": begin(now - ago)}))})
	}
	if !m.endless() {
		add("no exp", map[string]any{"exp": nil})
		add("exp zero", map[string]any{"exp": 0})
	}
	return out
}

// begin returns a time some seconds before end, but after 1970.
func begin(end int64) int64 { return max(end-30, 1) }

// endless reports whether tokens of this kind may have no expiry.
func (m Maker) endless() bool { _, workload := m.Claims["nomad_allocation_id"]; return workload }

// audiences returns tokens for other audiences, or of other issuers.
func (m Maker) audiences() []Token {
	const ours = "nomadproject.io"
	var out []Token
	for name, v := range map[string]any{"another": "vault.example", "longer": ours + ".evil.example", "prefix": "nomadproject",
		"a list of others": []string{"a", "b"}, "ours in a longer one": []string{"x " + ours}, "nested": []any{[]any{ours}},
		"an object": map[string]any{"aud": ours}, "a number": 5, "a mixed list": []any{ours, 5}, "an empty list": []any{}, "empty": "",
		"capitals": "NomadProject.io", "with a space": " " + ours, "with a dot": ours + ".", "URL": "https://" + ours,
		"a list with null": []any{ours, nil}, "true": true, "joined": ours + "," + ours, "NUL": ours + "\x00"} {
		out = append(out, Token{Name: "aud is " + name, Raw: m.Sign(m.With(map[string]any{"aud": v}))})
	}
	for name, v := range map[string]any{"a number": 5, "a list": []string{"x"}, "an object": map[string]any{}} {
		for _, claim := range []string{"iss", "sub", "jti"} {
			out = append(out, Token{Name: claim + " is " + name, Raw: m.Sign(m.With(map[string]any{claim: v}))})
		}
	}
	return out
}

// payloads returns tokens with malformed payloads.
func (m Maker) payloads() []Token {
	body := m.body()
	also := func(member string) string { return strings.TrimSuffix(body, "}") + "," + member + "}" }
	var out []Token
	for name, text := range map[string]string{"a list": `[` + body + `]`, "a string": asJSON(body), "null": `null`, "a number": `1`,
		"no JSON": `let me in`, "not closed": strings.TrimSuffix(body, "}"), "two objects": body + body, "text behind": body + "x",
		"BOM": "\ufeff" + body, "NUL behind": body + "\x00", "comma at the end": strings.TrimSuffix(body, "}") + ",}", "no claims": `{}`,
		"only the registered": `{"sub":"x","iat":1,"nbf":1,"aud":"nomadproject.io"}`, "iat twice": also(`"iat":1`),
		"aud twice": also(`"aud":"nomadproject.io"`),
		"exp twice": strings.TrimSuffix(also(`"exp":4102444800`), "}") + `,"exp":4102444800}`, "nbf twice, escaped": also(`"\u006ebf":1`),
		"twice, deeper": also(`"x":{"a":1,"a":2}`), "twice in a list": also(`"x":[{"a":1,"a":2}]`),
		"deep":                 also(`"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100)),
		"very deep":            also(`"x":` + strings.Repeat("[", 2500) + strings.Repeat("]", 2500)),
		"deep objects":         also(`"x":` + strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500)),
		"capitals":             also(`"NOMAD_ALLOCATION_ID":"x"`),
		"a name with a long s": also("\"\u017fub\":\"x\""), "a name with a Kelvin sign": also("\"nomad_tas\u212a\":\"x\""),
		"a null claim": also(`"consul_namespace":null`), "not UTF-8 as a name": also("\"\xff\":1"), "UTF-16": "\xff\xfe{\x00}\x00"} {
		out = append(out, Token{Name: "payload: " + name, Raw: m.forge(m.header(), text)})
	}
	return out
}

// kinds returns tokens of two kinds, or of none.
func (m Maker) kinds() []Token {
	groups := map[string]map[string]any{
		"workload":     {"nomad_namespace": "default", "nomad_job_id": "j", "nomad_allocation_id": "a"},
		"node":         {"nomad_node_id": "n"},
		"introduction": {"nomad_node_name": "", "nomad_node_pool": "default"},
		"server":       {"nomad_server_id": "s"},
		"extra":        {"extra_claims": map[string]string{"a": "b"}},
		"uses":         {"nomad_node_uses": 5},
	}
	is := map[string]string{"nomad_allocation_id": "workload", "nomad_node_id": "node", "nomad_node_name": "introduction",
		"nomad_server_id": "server"}
	own := ""
	for claim, kind := range is {
		if _, has := m.Claims[claim]; has {
			own = kind
		}
	}
	var out []Token
	for kind, group := range groups {
		if kind == own || own == "workload" && kind == "extra" || own == "introduction" && kind == "uses" {
			continue
		}
		out = append(out, Token{Name: "two kinds: also " + kind, Raw: m.Sign(m.With(group))})
	}
	none := map[string]any{}
	for name := range m.Claims {
		if strings.HasPrefix(name, "nomad_") {
			none[name] = nil
		}
	}
	out = append(out, Token{Name: "no kind", Raw: m.Sign(m.With(none))})
	none["nomad_node_pool"] = "default"
	out = append(out, Token{Name: "a node pool only", Raw: m.Sign(m.With(none))})
	all := map[string]any{}
	for _, kind := range []string{"workload", "node", "introduction", "server"} {
		for k, v := range groups[kind] {
			all[k] = v
		}
	}
	return append(out, Token{Name: "all kinds", Raw: m.Sign(m.With(all))})
}

// bigNumber is a JSON number outside of Go's number types.
type bigNumber string

// MarshalJSON implements json.Marshaler.
func (n bigNumber) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// decodePart decodes a part of a good token.
func decodePart(part string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		panic(err) // a part of a token made above
	}
	return b
}

// padded adds base64 padding, and one superfluous character where none is needed.
func padded(part string) string { return part + strings.Repeat("=", 4-len(part)%4) }

// other62 makes sure that the encoding of b differs between the two alphabets.
func other62(b []byte) []byte { return append([]byte{0xfb, 0xff, 0xbe}, b[3:]...) }

// longer adds bytes before and after the signature of a token.
func longer(raw string, before, behind []byte) string {
	end := strings.LastIndexByte(raw, '.') + 1
	return raw[:end] + encode(slices.Concat(before, decodePart(raw[end:]), behind))
}

// plusOrder adds the order of the group to S, which must be below it (RFC 8032 section 5.1.7).
func plusOrder(s []byte) []byte {
	sum, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	high := slices.Clone(s)
	slices.Reverse(high)
	low := sum.Add(sum, new(big.Int).SetBytes(high)).FillBytes(make([]byte, 32))
	slices.Reverse(low)
	return low
}
