package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"crabmem/daemon/channel"

	"github.com/PaulSonOfLars/gotgbot/v2"
)

const maxFileID = 256 // bytes

// file describes a file in a message.
type file struct {
	ID   string `json:"file_id"`
	Name string `json:"file_name"`
	MIME string `json:"mime_type"`
	Size int64  `json:"file_size"`
}

// attachment returns the file in a message.
func (m *message) attachment() channel.Attachment {
	kind, f := "", (*file)(nil)
	switch {
	case len(m.Photo) > 0:
		kind, f = "photo", &m.Photo[len(m.Photo)-1]
	case m.Document != nil:
		kind, f = "document", m.Document
	case m.Voice != nil:
		kind, f = "voice", m.Voice
	case m.Audio != nil:
		kind, f = "audio", m.Audio
	case m.Video != nil:
		kind, f = "video", m.Video
	default:
		return channel.Attachment{}
	}
	a := channel.Attachment{Kind: kind, Name: f.Name, Size: f.Size}
	if m.Document != nil && strings.HasPrefix(strings.ToLower(f.MIME), "text/") && f.Size <= channel.MaxFile && len(f.ID) <= maxFileID {
		a.TextFile = f.ID
	}
	return a
}

// fetch returns a text file. Its errors do not contain the address, which has the token.
func (b *bot) fetch(ctx context.Context, id string) (string, error) {
	var f struct {
		Path string `json:"file_path"`
	}
	if err := b.call(ctx, sendTime, "getFile", map[string]any{"file_id": id}, &f); err != nil {
		if e, ok := errors.AsType[*gotgbot.TelegramError](err); ok && e.Code == http.StatusBadRequest {
			return "", &channel.SendError{Err: err}
		}
		return "", err
	}
	if !fs.ValidPath(f.Path) {
		return "", &channel.SendError{Err: errors.New("the path of the file is not valid")}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.client.FileURL(b.token, (&url.URL{Path: f.Path}).EscapedPath(), nil), nil)
	if err != nil {
		return "", errors.New("the address of the file is not valid")
	}
	resp, err := b.client.Client.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return "", e.Err
	} else if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, channel.MaxFile+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the file server answers %d", resp.StatusCode)
	case err != nil:
		return "", err
	case len(text) > channel.MaxFile:
		return "", &channel.SendError{Err: fmt.Errorf("the file has more than %d bytes", channel.MaxFile)}
	case !utf8.Valid(text) || strings.Contains(string(text), "\x00"):
		return "", &channel.SendError{Err: errors.New("the file is not UTF-8 text")}
	}
	return string(text), nil
}
