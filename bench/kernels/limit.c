/* What a loop written by hand for one machine reaches: runs gathered out of memory and scattered into it, each the best of some
   ways. The limit beside which the rules stand; nothing else uses it. Built by run.py: cc -O2 -march=native -shared -fPIC. */
#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define LINE 64

/* Lines of a later run asked for, then stored past the caches. `dst` begins at a multiple of 16. */
void gather_past(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    for (size_t n = 0; n < runs; n++, src += apart, dst += run)
        for (size_t at = 0; at < run; at += LINE) {
            _mm_prefetch(src + ahead * apart + at, _MM_HINT_T0);
            for (size_t k = 0; k < LINE; k += 16)
                _mm_stream_si128((__m128i *)(dst + at + k), _mm_loadu_si128((const __m128i *)(src + at + k)));
        }
    _mm_sfence();
}

/* The same with plain stores. */
void gather_plain(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    for (size_t n = 0; n < runs; n++, src += apart, dst += run)
        for (size_t at = 0; at < run; at += LINE) {
            _mm_prefetch(src + ahead * apart + at, _MM_HINT_T0);
            for (size_t k = 0; k < LINE; k += 16)
                _mm_storeu_si128((__m128i *)(dst + at + k), _mm_loadu_si128((const __m128i *)(src + at + k)));
        }
}

/* One instruction per run. */
void gather_string(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    (void)ahead;
    for (size_t n = 0; n < runs; n++, src += apart, dst += run) {
        const char *from = src;
        char *to = dst;
        size_t count = run;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    }
}

/* memcpy per run. */
void gather_memcpy(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    (void)ahead;
    for (size_t n = 0; n < runs; n++, src += apart, dst += run) memcpy(dst, src, run);
}

#ifdef __AVX512BW__
/* Whole lines of 64 bytes past the caches; a line that two runs share is put together in a register. */
void gather_lines(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    size_t at = -(size_t)dst % LINE;
    memcpy(dst, src, at);
    dst += at;
    for (size_t n = 0; n < runs; n++, src += apart) {
        for (; at + LINE <= run; at += LINE, dst += LINE) {
            _mm_prefetch(src + ahead * apart + at, _MM_HINT_T0);
            _mm512_stream_si512((__m512i *)dst, _mm512_loadu_si512(src + at));
        }
        size_t left = run - at;
        if (left == 0) { at = 0; continue; }
        if (n + 1 == runs) { memcpy(dst, src + at, left); break; }
        _mm_prefetch(src + ahead * apart + at, _MM_HINT_T0);
        __mmask64 mine = (1ull << left) - 1;
        __m512i line = _mm512_maskz_loadu_epi8(mine, src + at);
        _mm512_stream_si512((__m512i *)dst, _mm512_mask_loadu_epi8(line, ~mine, src + apart - left));
        dst += LINE;
        at = LINE - left;
    }
    _mm_sfence();
}

/* The same with runs of both halves abreast. Runs are multiples of a line, and even in number. */
void gather_abreast(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    const size_t half = runs / 2, head = -(size_t)dst % LINE;
    const char *from[2] = {src, src + half * apart};
    char *to[2] = {dst, dst + half * run};
    for (int k = 0; k < 2; k++) memcpy(to[k], from[k], head);
    for (size_t n = 0; n < half; n++) {
        size_t at = head;
        for (; at + LINE <= run; at += LINE)
            for (int k = 0; k < 2; k++) {
                _mm_prefetch(from[k] + ahead * apart + at, _MM_HINT_T0);
                _mm512_stream_si512((__m512i *)(to[k] + at), _mm512_loadu_si512(from[k] + at));
            }
        for (int k = 0; k < 2 && at < run; k++) {
            const size_t left = run - at;
            const __mmask64 mine = (1ull << left) - 1;
            if (n + 1 == half) { memcpy(to[k] + at, from[k] + at, left); continue; }
            _mm_prefetch(from[k] + ahead * apart + at, _MM_HINT_T0);
            __m512i line = _mm512_maskz_loadu_epi8(mine, from[k] + at);
            _mm512_stream_si512((__m512i *)(to[k] + at), _mm512_mask_loadu_epi8(line, ~mine, from[k] + apart - left));
        }
        for (int k = 0; k < 2; k++) from[k] += apart, to[k] += run;
    }
    _mm_sfence();
}

/* A run by registers of 64 bytes: its ends wherever they lie, between them stores that begin at lines. */
static inline void registers(const char *src, char *dst, size_t run, const char *ahead) {
    size_t head = -(size_t)dst % LINE, over = ((size_t)dst + run) % LINE;
    __m512i first = _mm512_loadu_si512(src), last = _mm512_loadu_si512(src + run - LINE);
    if (head) _mm512_storeu_si512(dst, first);
    for (size_t at = head; at + over < run; at += LINE) {
        _mm_prefetch(ahead + at, _MM_HINT_T0);
        _mm512_store_si512(dst + at, _mm512_loadu_si512(src + at));
    }
    if (over) _mm512_storeu_si512(dst + run - LINE, last);
}

void gather_registers(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    for (size_t n = 0; n < runs; n++, src += apart, dst += run) registers(src, dst, run, src + ahead * apart);
}

void scatter_registers(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    for (size_t n = 0; n < runs; n++, src += run, dst += apart) registers(src, dst, run, src + ahead * run);
}
#else
void gather_registers(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    gather_plain(src, dst, runs, run, apart, ahead);
}

void scatter_registers(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    (void)ahead;
    for (size_t n = 0; n < runs; n++, src += run, dst += apart) memcpy(dst, src, run);
}

void gather_lines(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    gather_past(src, dst, runs, run, apart, ahead);
}

void gather_abreast(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    gather_past(src, dst, runs, run, apart, ahead);
}
#endif

/* All lines of a later run asked for, to be written in the cache. */
void scatter_owned(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    for (size_t n = 0; n < runs; n++, src += run, dst += apart)
        for (size_t at = 0; at < run; at += LINE) {
            __builtin_prefetch(dst + ahead * apart + at, 1, 3);
            if (at + LINE >= run) __builtin_prefetch(dst + ahead * apart + run - 1, 1, 3);
            for (size_t k = 0; k < LINE; k += 16)
                _mm_storeu_si128((__m128i *)(dst + at + k), _mm_loadu_si128((const __m128i *)(src + at + k)));
        }
}

/* Whole lines past the caches, those that a run begins and ends inside of asked for. */
void scatter_past(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    for (size_t n = 0; n < runs; n++, src += run, dst += apart) {
        size_t at = 0, head = -(size_t)dst % LINE;
        __builtin_prefetch(dst + ahead * apart, 1, 3);
        __builtin_prefetch(dst + ahead * apart + run - 1, 1, 3);
        for (; at < head; at += 16)
            _mm_storeu_si128((__m128i *)(dst + at), _mm_loadu_si128((const __m128i *)(src + at)));
        for (; at + LINE <= run; at += LINE)
            for (size_t k = 0; k < LINE; k += 16)
                _mm_stream_si128((__m128i *)(dst + at + k), _mm_loadu_si128((const __m128i *)(src + at + k)));
        for (; at < run; at += 16)
            _mm_storeu_si128((__m128i *)(dst + at), _mm_loadu_si128((const __m128i *)(src + at)));
    }
    _mm_sfence();
}

/* memcpy per run. */
void scatter_memcpy(const char *src, char *dst, size_t runs, size_t run, size_t apart, size_t ahead) {
    (void)ahead;
    for (size_t n = 0; n < runs; n++, src += run, dst += apart) memcpy(dst, src, run);
}
