package fetch_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/fetch"
)

func TestRequest(t *testing.T) {
	want := &fetch.Request{
		Source: "https://host/a", Headers: map[string]string{"a": "b"}, Mode: fetch.ModeDir, Insecure: true, Archive: "/x",
		Limits: fetch.Limits{Download: 1, Unpacked: 2, Files: 3}, Timeouts: fetch.Timeouts{HTTP: time.Second, S3: time.Hour},
	}
	b, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := fetch.ReadRequest(bytes.NewReader(b))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadRequest() = %+v, %v", got, err)
	}
	if got := want.Timeouts.Longest(); got != time.Hour {
		t.Errorf("Longest() = %v", got)
	}
	large := &fetch.Request{Source: strings.Repeat("x", 2<<20), Mode: fetch.ModeAny}
	if _, err := large.Encode(); err == nil {
		t.Error("Encode() of 2 MiB succeeds")
	}
	for _, text := range []string{"", "{", `{"Mode": "other"}`, `{"Mode": "any", "Source": "` + strings.Repeat("x", 2<<20) + `"}`} {
		if _, err := fetch.ReadRequest(strings.NewReader(text)); err == nil {
			t.Errorf("ReadRequest() of %d bytes succeeds", len(text))
		}
	}
}

func TestMessages(t *testing.T) {
	var wire bytes.Buffer
	sent := []fetch.Message{
		{Kind: fetch.Progress, Bytes: 1, Total: 2}, {Kind: fetch.Done, File: "out/a"},
		{Kind: fetch.Failed, Text: "no\x1b[31m\nway" + strings.Repeat("é", 5000)},
	}
	for _, m := range sent {
		if err := fetch.Write(&wire, m); err != nil {
			t.Fatal(err)
		}
	}
	var got []fetch.Message
	if err := fetch.Read(&wire, func(m fetch.Message) error { got = append(got, m); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0] != sent[0] || got[1] != sent[1] {
		t.Errorf("Read() = %+v", got)
	}
	if text := got[2].Text; !strings.HasPrefix(text, "no [31m wayé") || len(text) > 2100 || !strings.HasSuffix(text, "é...") {
		t.Errorf("text has %d bytes: %.40q", len(text), text)
	}
	for _, text := range []string{"x\n", strings.Repeat("x", 20<<10)} {
		if err := fetch.Read(strings.NewReader(text), func(fetch.Message) error { return nil }); err == nil {
			t.Errorf("Read() of %.10q succeeds", text)
		}
	}
	stop := fmt.Errorf("stop")
	if err := fetch.Read(strings.NewReader("{}\n{}\n"), func(fetch.Message) error { return stop }); err != stop {
		t.Errorf("Read() = %v, want the caller's error", err)
	}
}

func TestKind(t *testing.T) {
	for source, want := range map[string]fetch.Kind{
		"http://h/a": fetch.HTTP, "HTTPS://h/a": fetch.HTTP, "http::https://h/a": fetch.HTTP, "https://b.s3.amazonaws.com/a": fetch.HTTP,
		"git::https://h/r//sub": fetch.Git, "git::ssh://git@h/r": fetch.Git, "git://h/r": fetch.Git, "git@github.com:a/b.git": fetch.Git,
		"git::git@h:a/b": fetch.Git, "github.com/a/b": fetch.Git, "gitlab.com/a/b": fetch.Git, "bitbucket.org/a/b": fetch.Git,
		"hg::http://h/r":                   fetch.Hg,
		"s3::https://s3.amazonaws.com/b/k": fetch.S3, "b.s3.amazonaws.com/k": fetch.S3,
		"gcs::https://www.googleapis.com/storage/v1/b/k": fetch.GCS,
		"www.googleapis.com/storage/v1/b/k":              fetch.GCS, "https://h/a?x=git::y": fetch.HTTP,
	} {
		s := source2(t, source)
		if got, err := s.Kind(); got != want || err != nil {
			t.Errorf("Kind(%s) = %q, %v, want %q", source, got, err, want)
		}
	}
	for source, want := range map[string]string{
		"file:///etc/passwd": "local files", "FILE:///etc/passwd": "local files", "/etc/passwd": "local files", "./a": "local files",
		"../a": "local files", "a/b": "local files",
		"file::https://h/a": "local files", "git::/srv/repo": "local files", "git::file:///srv/repo": "local files", "git::./r": "local files",
		"hg::file:///r":     "local files",
		"git::ext::sh -c x": `scheme "ext"`, "git::ext://x": `scheme "ext"`, "s3::ftp://h/a": `scheme "ftp"`,
		"ftp://h/a": `unknown scheme "ftp"`, "ssh://h/a": `unknown scheme "ssh"`,
		"git::ssh://-o x/a": "malformed", "https://h:x/a": "malformed",
		"nope::https://h/a": `unknown kind "nope"`, "GIT::https://h/a": `unknown kind "GIT"`, "s3://b/k": `unknown scheme "s3"`,
		"http::ssh://h/a": `scheme "ssh"`,
	} {
		s := source2(t, source)
		if kind, err := s.Kind(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Kind(%s) = %q, %v, want an error with %q", source, kind, err, want)
		}
	}
}

func source2(t *testing.T, source string) fetch.Source {
	t.Helper()
	s, err := fetch.ParseSource(source, nil)
	if err != nil {
		t.Fatalf("ParseSource(%s) = %v", source, err)
	}
	return s
}

func TestSource(t *testing.T) {
	s, err := fetch.ParseSource("s3::https://user:pass@h/a.tgz//sub?token=secret&checksum=md5:00#7",
		map[string]string{"b": "x y", "archive": "tgz", "checksum": "late"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.URL(), "s3::https://user:pass@h/a.tgz//sub?token=secret&checksum=md5:00&archive=tgz&b=x+y&checksum=late#7"; got != want {
		t.Errorf("URL() = %s, want %s", got, want)
	}
	if s, err := fetch.ParseSource("https://user:p@ss@h/a@b", nil); err != nil || s.String() != "https://h/a@b" {
		t.Errorf("String() of a source with @ in its password = %s, %v", s, err)
	}
	for _, got := range []string{s.String(), fmt.Sprint(s), fmt.Sprintf("%#v", s)} {
		if want := "s3::https://h/a.tgz//sub"; got != want {
			t.Errorf("printed as %s, want %s", got, want)
		}
	}
	if got := s.Option("checksum"); got != "md5:00" {
		t.Errorf("Option(checksum) = %q, want the first one", got)
	}
	if got, want := s.WithoutOptions("checksum").URL(), "s3::https://user:pass@h/a.tgz//sub?token=secret&archive=tgz&b=x+y#7"; got != want {
		t.Errorf("WithoutOptions() = %s, want %s", got, want)
	}
	if got, want := source2(t, "https://h/a.tgz?t=1&checksum=x&%63hecksum=y").Signature().URL(), "https://h/a.tgz.minisig?t=1"; got != want {
		t.Errorf("Signature() = %s, want %s", got, want)
	}
	for source, want := range map[string]string{"https://u@h:1/a": "h", "git@h:a/b": "h", "git::ssh://git@[fe80::1]/r": "fe80::1",
		"github.com/a/b": ""} {
		if got := source2(t, source).Host(); got != want {
			t.Errorf("Host(%s) = %q, want %q", source, got, want)
		}
	}
	for _, source := range []string{"", "https://h/\n", "https://h/\x00", "https://h/?a=b;c=d", "https://h/?a=%zz"} {
		if _, err := fetch.ParseSource(source, nil); err == nil {
			t.Errorf("ParseSource(%q) succeeds", source)
		}
	}
}

func TestChecksum(t *testing.T) {
	sum := func(n int) string { return strings.Repeat("ab", n) }
	for text, want := range map[string]string{
		"md5:" + sum(16): "md5:" + sum(16), "SHA256:" + sum(32): "sha256:" + sum(32), sum(16): "md5:" + sum(16), sum(20): "sha1:" + sum(20),
		sum(32): "sha256:" + sum(32), strings.ToUpper(sum(64)): "sha512:" + sum(64), "file:https://h/sums": "file:https://h/sums",
	} {
		c, err := fetch.ParseChecksum(text)
		if err != nil || c.String() != want {
			t.Errorf("ParseChecksum(%s) = %v, %v, want %s", text, c, err, want)
			continue
		}
		if c.Type != "file" && c.Hash().Size() != len(c.Value) {
			t.Errorf("Hash() of %s has %d bytes", text, c.Hash().Size())
		}
	}
	for text, want := range map[string]string{
		"": "0 bytes", "xyz": "not hexadecimal", "sha256:xyz": "not hexadecimal", "sha256:" + sum(16): "has 16 bytes: sha256 has 32",
		sum(17): "17 bytes", "file:": "no URL",
		"crc32:" + sum(4): `unknown checksum type "crc32"`, ":" + sum(16): "empty type",
	} {
		if c, err := fetch.ParseChecksum(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseChecksum(%s) = %v, %v, want an error with %q", text, c, err, want)
		}
	}
}

func FuzzSource(f *testing.F) {
	for _, s := range []string{"https://h/a?b=c#d", "git::git@h:a//b", "::", "s3::%zz", "a::b::c", "git@:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fetch.ParseSource(text, map[string]string{"k": "v"})
		if err != nil {
			return
		}
		s.Kind() //nolint:errcheck // must not panic
		s.Host()
		if again, err := fetch.ParseSource(s.URL(), nil); err != nil || again.URL() != s.URL() || again.Option("k") != s.Option("k") {
			t.Errorf("%q becomes %q, then %q, %v", text, s.URL(), again.URL(), err)
		}
	})
}
