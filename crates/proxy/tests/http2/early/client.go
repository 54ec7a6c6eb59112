// Sends bodies that are not wanted, one after another, and expects an answer to each.
//
// Usage: client URL STATUS REQUESTS SIZE...
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

func post(client *http.Client, url string, size int) string {
	body := bytes.NewReader(bytes.Repeat([]byte("x"), size))
	answer, err := client.Post(url, "text/plain", body)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %d %t", answer.Proto, answer.StatusCode, len(text) > 0)
}

func main() {
	url, status, sizes := os.Args[1], os.Args[2], os.Args[4:]
	count, _ := strconv.Atoi(os.Args[3])
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true,
	}}
	lost := []string{}
	for turn := 0; turn < count; turn++ {
		size, _ := strconv.Atoi(sizes[turn%len(sizes)])
		got := post(client, url, size)
		if got != "HTTP/2.0 "+status+" true" {
			lost = append(lost, fmt.Sprintf("%d bytes: %s", size, got))
		}
	}
	fmt.Printf("%d of %d\n", count-len(lost), count)
	for _, line := range lost[:min(len(lost), 5)] {
		fmt.Println(line)
	}
}
