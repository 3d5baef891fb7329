package testtokens

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
)

// algorithms returns tokens with an algorithm other than that of their key.
func (m Maker) algorithms() []Token {
	var out []Token
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "eddsa", "EDDSA", "EdDsa", " EdDSA", "EdDSA ", "EdDSA\x00", "Ed25519",
		"ES256", "ES384", "ES512", "ES256K", "PS256", "PS384", "PS512",
		"RS256", "RS384", "RS512", "HS256", "HS384", "HS512", "dir", "A128KW", "RSA-OAEP", "ECDH-ES", "PBES2-HS256+A128KW", "ML-DSA-44",
		"../EdDSA"} {
		out = append(out, Token{Name: fmt.Sprintf("alg %q", alg), Raw: m.forge(m.headerOf(alg, m.Kid), m.body())})
	}
	for _, alg := range []string{"none", "None", "NONE"} {
		out = append(out, Token{Name: "alg " + alg + ", no signature", Raw: input(m.headerOf(alg, m.Kid), m.body()) + "."})
	}
	public := m.Key.Public().(ed25519.PublicKey)
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic(err) // an Ed25519 key can always be encoded
	}
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	jwk := `{"use":"sig","kty":"OKP","crv":"Ed25519","kid":"` + m.Kid + `","alg":"EdDSA","x":"` + encode(public) + `"}`
	for name, secret := range map[string]string{"the public key": string(public), "its DER": string(der), "its PEM": block,
		"its PEM without line end": strings.TrimSpace(block),
		"its JWK":                  jwk, "its x": encode(public), "its hex": hex.EncodeToString(public), "nothing": "", "its key ID": m.Kid} {
		out = append(out, Token{Name: "HS256 keyed with " + name, Raw: mac(input(m.headerOf("HS256", m.Kid), m.body()), []byte(secret))},
			Token{Name: "EdDSA, HMAC keyed with " + name, Raw: mac(input(m.header(), m.body()), []byte(secret))})
	}
	return append(out, m.rsaMixed()...)
}

// rsaMixed returns tokens that confuse two known keys.
func (m Maker) rsaMixed() []Token {
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // crypto/rand ends the process instead
	}
	body := m.body()
	out := []Token{
		{Name: "RS256 by a stranger's key, kid of Ed25519", Raw: rsaSigned(input(m.headerOf("RS256", m.Kid), body), own)},
		{Name: "EdDSA, RSA signature of a stranger", Raw: rsaSigned(input(m.header(), body), own)},
	}
	if m.RSA == nil {
		return out
	}
	public := x509.MarshalPKCS1PublicKey(&m.RSA.PublicKey)
	return append(out,
		Token{Name: "kid of RSA, signed EdDSA", Raw: m.forge(m.headerOf("EdDSA", m.RSAKid), body)},
		Token{Name: "kid of RSA, says RS256, signed EdDSA", Raw: m.forge(m.headerOf("RS256", m.RSAKid), body)},
		Token{Name: "kid of Ed25519, signed by the RSA key", Raw: rsaSigned(input(m.headerOf("RS256", m.Kid), body), m.RSA)},
		Token{Name: "kid of Ed25519, says EdDSA, signed by the RSA key", Raw: rsaSigned(input(m.header(), body), m.RSA)},
		Token{Name: "RS512 said, signed RS256", Raw: rsaSigned(input(m.headerOf("RS512", m.RSAKid), body), m.RSA)},
		Token{Name: "PS256 said, signed RS256", Raw: rsaSigned(input(m.headerOf("PS256", m.RSAKid), body), m.RSA)},
		Token{Name: "RS256 by a stranger's key", Raw: rsaSigned(input(m.headerOf("RS256", m.RSAKid), body), own)},
		Token{Name: "HS256 keyed with the RSA key's DER", Raw: mac(input(m.headerOf("HS256", m.RSAKid), body), public)},
		Token{Name: "RS256, HMAC keyed with the RSA key's DER", Raw: mac(input(m.headerOf("RS256", m.RSAKid), body), public)},
		Token{Name: "RSA signature of zeros", Raw: input(m.headerOf("RS256", m.RSAKid), body) + "." + encode(make([]byte, 256))},
		Token{Name: "RSA signature of one", Raw: input(m.headerOf("RS256", m.RSAKid), body) + "." + encode(append(make([]byte, 255), 1))},
		Token{Name: "RSA signature with a zero before",
			Raw: longer(rsaSigned(input(m.headerOf("RS256", m.RSAKid), body), m.RSA), []byte{0}, nil)},
	)
}

// keyIDs returns tokens with the ID of another key.
func (m Maker) keyIDs() []Token {
	var out []Token
	for name, kid := range map[string]string{"empty": "", "of nobody": "4d3a0f5c-8f8e-4b8c-9f4e-2f1d3c5b7a90",
		"path up": "../../../../dev/null", "path": "/etc/passwd", "path beside": "./" + m.Kid,
		"SQL": "' OR '1'='1", "SQL union": "x' UNION SELECT 'AA", "shell": "$(id)", "NUL": m.Kid + "\x00", "NUL first": "\x00" + m.Kid,
		"line end": m.Kid + "\n", "space": " " + m.Kid,
		"capitals": strings.ToUpper(m.Kid), "prefix": m.Kid[:len(m.Kid)-1], "longer": m.Kid + "0", "wildcard": "*",
		"URL": "http://127.0.0.1:1/" + m.Kid, "5 KiB": strings.Repeat("k", 5<<10),
		"full width": strings.Replace(m.Kid, m.Kid[:1], "\uff10", 1), "template": "${kid}", "the word active": "active", "percent": "%s%n",
		"not UTF-8": "\xff\xfe"} {
		out = append(out, Token{Name: "kid: " + name, Raw: m.forge(m.headerOf("EdDSA", kid), m.body())})
	}
	for name, value := range map[string]string{"number": `5`, "list": `["` + m.Kid + `"]`, "object": `{"kid":"` + m.Kid + `"}`, "null": `null`,
		"true": `true`} {
		out = append(out, Token{Name: "kid is a " + name, Raw: m.forge(`{"alg":"EdDSA","typ":"JWT","kid":`+value+`}`, m.body())})
	}
	return out
}

// headers returns tokens with unexpected or malformed headers.
func (m Maker) headers() []Token {
	_, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand ends the process instead
	}
	jwk := `"jwk":{"kty":"OKP","crv":"Ed25519","x":"` + encode(own.Public().(ed25519.PublicKey)) + `"}`
	kid := asJSON(m.Kid)
	var out []Token
	add := func(name, header string) { out = append(out, Token{Name: name, Raw: m.forge(header, m.body())}) }
	for name, member := range map[string]string{"jwk": jwk, "jku": `"jku":"http://127.0.0.1:1/jwks.json"`,
		"x5u": `"x5u":"http://127.0.0.1:1/c.pem"`, "x5c": `"x5c":["AA=="]`, "x5t": `"x5t":"AA"`,
		"x5t#S256": `"x5t#S256":"AA"`, "crit": `"crit":["exp"]`, "crit empty": `"crit":[]`, "crit b64": `"crit":["b64"],"b64":false`,
		"b64": `"b64":false`, "zip": `"zip":"DEF"`, "cty": `"cty":"JWT"`, "enc": `"enc":"A256GCM"`,
		"p2c": `"p2c":2147483647`, "epk": `"epk":{}`, "iss": `"iss":"x"`, "exp": `"exp":1`, "url": `"url":"http://127.0.0.1:1/"`,
		"nonce": `"nonce":"x"`, "unknown": `"x":1`, "empty name": `"":""`, "__proto__": `"__proto__":{"alg":"none"}`,
		"alg twice": `"alg":"EdDSA"`, "alg twice, none": `"alg":"none"`, "kid twice": `"kid":` + kid, "kid twice, other": `"kid":"x"`,
		"typ twice": `"typ":"JWT"`, "alg twice, escaped": `"\u0061lg":"none"`,
		"alg in capitals": `"ALG":"none"`, "kid in capitals": `"Kid":"x"`, "1000 members": `"m":0` + strings.Repeat(`,"m":0`, 999),
		"deep":      `"d":` + strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"very deep": `"d":` + strings.Repeat("[", 2500) + strings.Repeat("]", 2500), "deep, open": `"d":` + strings.Repeat(`{"a":`, 900)} {
		add("header with "+name, m.also(member))
	}
	out = append(out, Token{Name: "signed by the key in its header", Raw: m.signed(input(m.also(jwk), m.body()), own)},
		Token{Name: "no kid, signed by the key in its header", Raw: m.signed(input(`{"alg":"EdDSA",`+jwk+`}`, m.body()), own)})
	for name, header := range map[string]string{"no alg": `{"kid":` + kid + `,"typ":"JWT"}`, "no kid": `{"alg":"EdDSA","typ":"JWT"}`,
		"no member": `{}`, "typ of an access token": `{"alg":"EdDSA","kid":` + kid + `,"typ":"at+jwt"}`,
		"typ JWE": `{"alg":"EdDSA","kid":` + kid + `,"typ":"JWE"}`, "typ empty": `{"alg":"EdDSA","kid":` + kid + `,"typ":""}`,
		"typ a number": `{"alg":"EdDSA","kid":` + kid + `,"typ":1}`, "alg a list": `{"alg":["EdDSA"],"kid":` + kid + `}`,
		"alg null": `{"alg":null,"kid":` + kid + `}`, "a list": `["EdDSA"]`, "a string": `"EdDSA"`, "null": `null`, "a number": `1`,
		"not closed": `{"alg":"EdDSA","kid":` + kid, "two objects": m.header() + m.header(),
		"text behind": m.header() + "x", "BOM": "\ufeff" + m.header(), "UTF-16": "\xff\xfe{\x00}\x00",
		"comma at the end": `{"alg":"EdDSA","kid":` + kid + `,}`, "single quotes": strings.ReplaceAll(m.header(), `"`, `'`),
		"NUL behind": m.header() + "\x00", "comment": "/**/" + m.header(), "4 KiB of spaces": m.header() + strings.Repeat(" ", 4<<10)} {
		add("header: "+name, header)
	}
	return out
}

// signatures returns tokens with invalid signatures.
func (m Maker) signatures() []Token {
	good := m.Good()
	end := strings.LastIndexByte(good, '.')
	in := good[:end]
	sum := sha512.Sum512([]byte(in))
	_, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand ends the process instead
	}
	other := m.Sign(m.With(map[string]any{"sub": "other"}))
	sig := decodePart(good[end+1:])
	with := func(s []byte) string { return in + "." + encode(s) }
	out := []Token{
		{Name: "signature of another key", Raw: m.signed(in, own)},
		{Name: "signature of another token", Raw: in + other[strings.LastIndexByte(other, '.'):]},
		{Name: "signature of the payload alone", Raw: with(ed25519.Sign(m.Key, []byte(m.body())))},
		{Name: "signature of the digest", Raw: with(ed25519.Sign(m.Key, sum[:]))},
		{Name: "signature of zeros", Raw: with(make([]byte, 64))},
		{Name: "signature cut", Raw: with(sig[:63])},
		{Name: "signature halved", Raw: with(sig[:32])},
		{Name: "signature of one byte", Raw: with(sig[:1])},
		{Name: "signature longer", Raw: longer(good, nil, []byte{0})},
		{Name: "signature with a zero before", Raw: longer(good, []byte{0}, nil)},
		{Name: "signature twice", Raw: longer(good, nil, sig)},
		{Name: "signature in hex", Raw: in + "." + hex.EncodeToString(sig)},
		{Name: "S + L", Raw: with(append(append([]byte{}, sig[:32]...), plusOrder(sig[32:])...))},
		{Name: "high bits of S", Raw: with(append(append([]byte{}, sig[:63]...), sig[63]|0xe0))},
		{Name: "R and S exchanged", Raw: with(append(append([]byte{}, sig[32:]...), sig[:32]...))},
		{Name: "sign of R", Raw: with(append(append(append([]byte{}, sig[:31]...), sig[31]^0x80), sig[32:]...))},
	}
	for i, point := range smallOrder {
		r, err := hex.DecodeString(point)
		if err != nil {
			panic(err) // the table below
		}
		out = append(out, Token{Name: fmt.Sprintf("R of small order %d, S zero", i), Raw: with(append(r, make([]byte, 32)...))},
			Token{Name: fmt.Sprintf("R of small order %d", i), Raw: with(append(r, sig[32:]...))})
	}
	for _, bit := range []int{0, 7, 255, 256, 400, 504} {
		flipped := append([]byte{}, sig...)
		flipped[bit/8] ^= 1 << (bit % 8)
		out = append(out, Token{Name: fmt.Sprintf("bit %d of the signature", bit), Raw: with(flipped)})
	}
	return out
}

// smallOrder are encodings of points of small order, the last ones not canonical
// (y is the prime or more).
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"0100000000000000000000000000000000000000000000000000000000000080",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
}
