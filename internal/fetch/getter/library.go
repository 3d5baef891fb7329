package getter

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"

	gogetter "github.com/hashicorp/go-getter"

	"github.com/open-nomad/open-nomad/internal/fetch"
)

// client returns the library's client without getters and decompressors.
func (j *job) client(ctx context.Context, source, dst string) *gogetter.Client {
	modes := map[string]gogetter.ClientMode{
		fetch.ModeAny: gogetter.ClientModeAny, fetch.ModeFile: gogetter.ClientModeFile, fetch.ModeDir: gogetter.ClientModeDir,
	}
	return &gogetter.Client{
		Ctx: ctx, Src: source, Dst: dst, Mode: modes[j.Mode], Umask: os.ModeSetuid | os.ModeSetgid,
		DisableSymlinks: true, Insecure: j.Insecure,
	}
}

// getters returns the supported getters of the library, by scheme.
func (j *job) getters(headers scoped, last *lastFile) map[string]gogetter.Getter {
	web := &gogetter.HttpGetter{
		Client: newHTTPClient(j.Insecure, j.Limits.Download, &j.got, headers), ReadTimeout: j.Timeouts.HTTP,
		DoNotCheckHeadFirst: true, XTerraformGetDisabled: true,
	}
	return map[string]gogetter.Getter{
		"http":  &noted{web, last},
		"https": &noted{web, last},
		"git":   &noted{&vcs{&gogetter.GitGetter{Timeout: j.Timeouts.Git}}, last},
		"hg":    &noted{&vcs{&gogetter.HgGetter{Timeout: j.Timeouts.Hg}}, last},
		"s3":    &noted{&gogetter.S3Getter{Timeout: j.Timeouts.S3}, last},
		"gcs":   &noted{&gogetter.GCSGetter{Timeout: j.Timeouts.GCS}, last},
	}
}

// headersFor returns the job's headers for the origin of a source.
func (j *job) headersFor(s fetch.Source) scoped {
	out := scoped{origin: s.Origin(), header: http.Header{}}
	for name, value := range j.Headers {
		out.header.Set(name, value)
	}
	return out
}

// lastFile is the path of the latest downloaded file.
type lastFile struct{ path string }

// noted records where a getter writes a single file.
type noted struct {
	gogetter.Getter
	last *lastFile
}

func (n *noted) GetFile(dst string, u *url.URL) error {
	n.last.path = dst
	return n.Getter.GetFile(dst, u)
}

// present is a getter whose file is already there.
type present struct{ archive string }

func (p *present) GetFile(dst string, _ *url.URL) error { return os.Symlink(p.archive, dst) }

func (p *present) Get(string, *url.URL) error {
	return errors.New("the source is not an archive")
}

func (p *present) ClientMode(*url.URL) (gogetter.ClientMode, error) {
	return gogetter.ClientModeFile, nil
}

func (p *present) SetClient(*gogetter.Client) {}
